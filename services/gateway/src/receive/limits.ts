/** Limits on requests: the rates of each key, and the memory of all bodies together. */
import { InstarError } from '@instar/events'
import { BufferCollection } from './buffers.ts'
import { take, type Bucket, type Key } from './core/keys.ts'
import type { RateLimitState } from '@instar/dialects'
import { standingOf } from './core/rate-headers.ts'

/** Counts the memory of request bodies, received and parsed, until their requests end. */
export class Bodies {
  private readonly limit: number
  private readonly body: number
  private bytes = 0
  private readonly byKey = new Map<string, number>()
  private readonly collection = new BufferCollection()

  /** `body`: maximum size of one body, which always fits. */
  constructor(limit: number, body: number) {
    this.limit = Math.max(limit, body)
    this.body = body
  }

  get held(): number {
    return this.bytes
  }

  /**
   * `key`: the body's key, or null. `before`: bytes that the request holds already; a request that is alone may exceed
   * the limit. Throws `overloaded` if there is no room, or if a key with other running requests would hold more than
   * half of it.
   */
  hold(bytes: number, key: string | null, before = 0): void {
    const own = key === null ? 0 : (this.byKey.get(key) ?? 0)
    if (own > before && own + bytes > Math.max(this.limit / 2, this.body)) {
      const message = `The bodies of the requests of the API key ${key} that are being answered take ${own} of the ${this.limit / 2} bytes of memory that they may; this one takes ${bytes} more.`
      throw new InstarError('overloaded', message, { limit: this.limit / 2, retryAfterMs: 1000 })
    }
    if (this.bytes + bytes > this.limit && this.bytes > before) {
      const message = `The bodies of the requests that are being answered take ${this.bytes} of the ${this.limit} bytes of memory that they may; this one takes ${bytes} more.`
      throw new InstarError('overloaded', message, { limit: this.limit, retryAfterMs: 1000 })
    }
    this.bytes += bytes
    this.collection.move(bytes, this.bytes)
    if (key !== null) this.byKey.set(key, own + bytes)
  }

  release(bytes: number, key: string | null): void {
    this.bytes -= bytes
    this.collection.move(bytes, this.bytes)
    const left = key === null ? 0 : (this.byKey.get(key) ?? 0) - bytes
    if (key !== null && left > 0) this.byKey.set(key, left)
    else if (key !== null) this.byKey.delete(key)
  }
}

/** A running request of a key: `charge` counts bytes of its body, `end` ends it. */
export type Visit = { charge(bytes: number): void; end(): void }

export type Rates = {
  /** Counts a request. Throws `rate_limited`. */
  enter(key: Key): Visit
  /** The remaining requests; null without a limit. */
  standing(key: Key): RateLimitState | null
}

/** `now`: ms since the epoch, for headers; `monotonic`: ms on a clock that is never set, for the rates. */
export const createRates = (now: () => number, monotonic: () => number): Rates => {
  const requests = new Map<string, Bucket>()
  const bytes = new Map<string, Bucket>()
  const running = new Map<string, number>()

  const takeFrom = (buckets: Map<string, Bucket>, key: Key, perMinute: number, cost: number, what: string): void => {
    const taken = take(buckets.get(key.id) ?? null, perMinute, monotonic(), cost)
    if ('waitMs' in taken)
      throw new InstarError('rate_limited', `The API key ${key.id} may send ${perMinute} ${what} a minute.`, {
        retryAfterMs: taken.waitMs,
      })
    buckets.set(key.id, taken.bucket)
  }
  return {
    standing: (key) =>
      key.requestsPerMinute === null
        ? null
        : { ...standingOf(requests.get(key.id) ?? null, key.requestsPerMinute, monotonic()), at: now() },
    enter(key) {
      const before = running.get(key.id) ?? 0
      if (key.concurrent !== null && before >= key.concurrent) {
        throw new InstarError('rate_limited', `The API key ${key.id} may have ${key.concurrent} requests at once.`, {
          retryAfterMs: 1000,
        })
      }
      if (key.bytesPerMinute !== null) takeFrom(bytes, key, key.bytesPerMinute, 0, 'bytes')
      if (key.requestsPerMinute !== null) takeFrom(requests, key, key.requestsPerMinute, 1, 'requests')
      running.set(key.id, before + 1)
      let over = false
      return {
        charge(count) {
          const bucket = bytes.get(key.id)
          if (key.bytesPerMinute !== null && bucket) bytes.set(key.id, { ...bucket, left: bucket.left - count })
        },
        end() {
          if (over) return
          over = true
          const left = (running.get(key.id) ?? 1) - 1
          if (left > 0) running.set(key.id, left)
          else running.delete(key.id)
        },
      }
    },
  }
}
