/**
 * HTTP client of one engine, with time limits for the connection, for the first byte of a response, between two chunks
 * and for a whole response that is not streamed. Every failure is an `EngineFault`.
 */
import { context, propagation } from '@opentelemetry/api'
import { Pool } from 'undici'
import { quoted, refusal } from '../protocols/faults.ts'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import type { Hold } from '../port.ts'
import { JSON_LIMITS } from '../protocols/answer-limits.ts'
import type { JsonLimits } from '@instar/events/json-size'
import type { JsonClient } from '../protocols/wire.ts'
import { EngineFault } from './fault.ts'
import { Held, parsedJson } from './held.ts'
import { StreamedResponse } from './streamed-response.ts'

export { EngineFault } from './fault.ts'

/**
 * Milliseconds. `idleMs`: without data after the first byte. `jsonMs`: for the whole of a JSON response, since a server
 * that sends a byte now and then never reaches `idleMs`.
 */
export type Timeouts = { connectMs: number; firstByteMs: number; idleMs: number; jsonMs: number }

export type HttpResponse = { status: number; retryAfterMs: number | null; bytes: StreamedResponse }

/**
 * `whole`: the response is not streamed. `ms`: time limit for the whole response in place of that for answers. `hold`: counts
 * what of it waits to be read; its error ends the response.
 */
type SendOptions = { whole?: boolean; ms?: number | undefined; hold?: Hold | undefined }
/** `held`: counts the response and its value. */
type JsonOptions = { maxBytes?: number; limits?: JsonLimits; held?: Held; hold?: Hold | undefined }

/** The log-probs of a prompt as long as the longest contexts. */
export const MAX_BODY_BYTES = 64 * 1024 * 1024
/** Of the body of an error, of which a message quotes some hundred characters. */
const ERROR_BYTES = 64 * 1024
/** Of a response about the server itself: its models, its state, an adapter that it loaded. */
const MAX_CLIENT_BYTES = 4 * 1024 * 1024
const MAX_RETRY_AFTER_S = 86_400
/** The time limit of a response that is not streamed, as a multiple of the limit for the first byte. */
const WHOLE_RESPONSE_FACTOR = 2

export class EngineHttp {
  readonly url: string
  /** Prefix of every path. */
  private readonly prefix: string
  private readonly headers: Readonly<Record<string, string>>
  private readonly pool: Pool
  private readonly timeouts: Timeouts

  constructor(url: string, key: string | null, timeouts: Timeouts) {
    this.url = url
    const { origin, pathname } = new URL(url)
    this.prefix = pathname.replace(/\/$/, '')
    this.headers = { 'content-type': 'application/json', ...(key === null ? {} : { authorization: `Bearer ${key}` }) }
    // StreamedResponse enforces the time limits; undici's own timers are less precise.
    this.pool = new Pool(origin, {
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { timeout: timeouts.connectMs },
    })
    this.timeouts = timeouts
  }

  /** Resolves with the head of the response. The caller must iterate over `bytes` or call its `return`. */
  async send(
    method: 'GET' | 'POST',
    path: string,
    body: JsonObject | null,
    signal?: AbortSignal,
    { whole = false, ms, hold }: SendOptions = {},
  ): Promise<HttpResponse> {
    const { jsonMs, idleMs } = this.timeouts
    const firstByteMs = ms ?? this.timeouts.firstByteMs * (whole ? WHOLE_RESPONSE_FACTOR : 1)
    const wholeMs = ms ?? (whole ? firstByteMs : null)
    const response = new StreamedResponse({
      firstByteMs,
      idleMs,
      wholeMs,
      refusalMs: jsonMs,
      signal,
      hold,
      timeoutError: (limit) =>
        new EngineFault(
          'timeout',
          limit === 'idle'
            ? `${this.url} sent no data for ${idleMs} ms during a response`
            : limit === 'whole'
              ? `${this.url} did not end a response within ${Math.round(wholeMs ?? jsonMs)} ms`
              : `${this.url} sent no response within ${Math.round(firstByteMs)} ms`,
        ),
      faultOf: (error, connected) => faultOf(error, signal, connected ? 'cut' : 'unreachable', this.url),
    })
    this.pool.dispatch(
      {
        method,
        path: `${this.prefix}${path}`,
        headers: withTraceContext(this.headers),
        body: body === null ? null : Buffer.from(JSON.stringify(body)),
      },
      response,
    )
    const { status, headers } = await response.head.promise
    return { status, retryAfterMs: retryAfterOf(headers['retry-after']), bytes: response }
  }

  /** The time limit of a whole JSON response, in milliseconds. */
  get jsonMs(): number {
    return this.timeouts.jsonMs
  }

  /**
   * A whole response of any status; of an error its beginning. Throws EngineFault if it has not ended within `jsonMs`, has
   * more than `maxBytes` or is beyond `limits`, and as `hold`.
   */
  async json(
    method: 'GET' | 'POST',
    path: string,
    body: JsonObject | null,
    signal?: AbortSignal,
    { maxBytes = MAX_BODY_BYTES, limits = JSON_LIMITS, held = new Held(undefined), hold }: JsonOptions = {},
  ): Promise<{ status: number; body: JsonObject | null; text: string }> {
    const { status, bytes } = await this.send(method, path, body, signal, { ms: this.jsonMs, hold })
    if (status !== 200) {
      const text = await beginningOf(bytes)
      return { status, body: objectOf(parsedJson(text, limits, held)), text }
    }
    const reading = new Held(hold)
    try {
      const whole = await collect(bytes, maxBytes, reading)
      return { status, body: objectOf(parsedJson(whole, limits, held)), text: whole.toString('utf8', 0, ERROR_BYTES) }
    } finally {
      reading.set(0)
    }
  }

  client(signal?: AbortSignal): JsonClient {
    return {
      get: async (path) => {
        const { status, body, text } = await this.json('GET', path, null, signal, { maxBytes: MAX_CLIENT_BYTES })
        if (status === 401 || status === 403) throw refusal(this.url, status, quoted(text))
        return status === 200 ? body : null
      },
      post: (path, body) => this.json('POST', path, body, signal, { maxBytes: MAX_CLIENT_BYTES }),
    }
  }

  close(): void {
    this.pool.destroy().catch(() => undefined)
  }
}

/** Milliseconds of a Retry-After in seconds; null if it is absent, a date, negative or beyond a day. */
const retryAfterOf = (value: string | string[] | undefined): number | null => {
  const seconds = typeof value === 'string' && /^\d{1,5}(\.\d+)?$/.test(value) ? Number(value) : Number.NaN
  return seconds <= MAX_RETRY_AFTER_S ? Math.ceil(1000 * seconds) : null
}

/** Adds the W3C trace context of the current span. */
const withTraceContext = (headers: Readonly<Record<string, string>>): Record<string, string> => {
  const carrier = { ...headers }
  propagation.inject(context.active(), carrier)
  return carrier
}

const faultOf = (
  error: NodeJS.ErrnoException,
  signal: AbortSignal | undefined,
  kind: 'cut' | 'unreachable',
  url: string,
): Error =>
  error instanceof EngineFault || signal?.aborted
    ? error
    : new EngineFault(
        kind,
        `${url}: ${error.code === undefined || error.code.startsWith('UND_') ? error.message : error.code}`,
        0,
        null,
        { cause: error },
      )

const objectOf = (parsed: { value: unknown } | null): JsonObject | null => {
  const value = parsed?.value
  return Array.isArray(value) ? { data: value as unknown } : isJsonObject(value) ? value : null
}

/** A response as it came, as one buffer, and as text. */
const COPIES = 3

/** The body. `held` counts it as it arrives. Throws EngineFault if it has more than `maxBytes` bytes, and as `held`. */
export const collect = async (bytes: AsyncIterable<Uint8Array>, maxBytes: number, held: Held): Promise<Buffer> => {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of bytes) {
    length += chunk.length
    if (length > maxBytes) throw new EngineFault('response', `the response has more than ${maxBytes} bytes`)
    held.set(COPIES * length)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

/** The first 64 KiB of the body of an error, as text. The rest is not read. */
export const beginningOf = async (bytes: AsyncIterable<Uint8Array>): Promise<string> => {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of bytes) {
    chunks.push(chunk.subarray(0, ERROR_BYTES - length))
    length += chunks.at(-1)!.length
    if (length === ERROR_BYTES) break
  }
  return Buffer.concat(chunks).toString('utf8')
}
