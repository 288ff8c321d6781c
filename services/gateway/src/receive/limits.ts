/** The rates of each key. */
import { InstarError } from '@instar/events'
import { take, type Bucket, type Key } from './core/keys.ts'
import type { RateLimitState } from '@instar/dialects'
import { standingOf } from './core/rate-headers.ts'

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
