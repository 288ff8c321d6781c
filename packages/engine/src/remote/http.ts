/**
 * HTTP to one engine, with limits for connecting, for the first byte of an answer and for silence within it. Every
 * failure is an `EngineFault`.
 */
import { context, propagation } from '@opentelemetry/api'
import { Pool } from 'undici'
import { quoted, refusal } from '../protocols/faults.ts'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import type { JsonClient } from '../protocols/wire.ts'
import { StreamedResponse } from './streamed-response.ts'

export type Timeouts = { connectMs: number; firstByteMs: number; idleMs: number }

/** `unreachable`: no connection; `cut`: the connection broke; `timeout`: a limit passed; `status`: an HTTP status; `said`: an error inside an answer. */
export class EngineFault extends Error {
  readonly kind: 'unreachable' | 'cut' | 'timeout' | 'status' | 'said'
  /** The HTTP status; 0 if there was none. */
  readonly status: number
  /** Retry-After in milliseconds. */
  readonly retryAfterMs: number | null
  constructor(
    kind: EngineFault['kind'],
    message: string,
    status = 0,
    retryAfterMs: number | null = null,
    options?: ErrorOptions,
  ) {
    super(message, options)
    this.kind = kind
    this.status = status
    this.retryAfterMs = retryAfterMs
  }

  /** For logs and other clients: without the engine's own words, which may quote the prompt. */
  brief(url: string): string {
    if (this.kind === 'status') return `${url} answered ${this.status}`
    return this.kind === 'said' ? `${url} gave an answer that is an error` : this.message
  }
}

export type Exchange = { status: number; retryAfterMs: number | null; bytes: AsyncIterable<Uint8Array> }

/** `whole`: the answer is not streamed. `ms`: limit for the first byte. */
type SendOptions = { whole?: boolean; ms?: number }

const BODY_BYTES_MAX = 64 * 1024 * 1024
/** The limit for an answer that is not streamed, as a multiple of that for the first byte. */
const WHOLE_ANSWER_FACTOR = 2
/** Limit for probes, and for an adapter that is loaded from a slow disk. */
const JSON_MS_MAX = 120_000

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
    // StreamedResponse enforces the limits, to the millisecond.
    this.pool = new Pool(origin, {
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { timeout: timeouts.connectMs },
    })
    this.timeouts = timeouts
  }

  /** Resolves with the status of the answer; `bytes` must be iterated or returned. */
  async send(
    method: 'GET' | 'POST',
    path: string,
    body: JsonObject | null,
    signal?: AbortSignal,
    { whole = false, ms = this.timeouts.firstByteMs }: SendOptions = {},
  ): Promise<Exchange> {
    const firstByteMs = whole ? WHOLE_ANSWER_FACTOR * ms : ms
    const answer = new StreamedResponse({
      firstByteMs,
      idleMs: this.timeouts.idleMs,
      signal,
      late: (began) =>
        new EngineFault(
          'timeout',
          began
            ? `${this.url} fell silent for ${this.timeouts.idleMs} ms in the middle of an answer`
            : `${this.url} did not begin to answer within ${Math.round(firstByteMs)} ms`,
        ),
      faultOf: (error, connected) => faultOf(error, signal, connected ? 'cut' : 'unreachable', this.url),
    })
    this.pool.dispatch(
      {
        method,
        path: `${this.prefix}${path}`,
        headers: traced(this.headers),
        body: body === null ? null : Buffer.from(JSON.stringify(body)),
      },
      answer,
    )
    const { status, headers } = await answer.head.promise
    const seconds = Number(headers['retry-after'])
    return {
      status,
      retryAfterMs: headers['retry-after'] !== undefined && Number.isFinite(seconds) ? 1000 * seconds : null,
      bytes: answer,
    }
  }

  /** A whole answer of any status. Throws EngineFault if there is none. */
  async json(
    method: 'GET' | 'POST',
    path: string,
    body: JsonObject | null,
    signal?: AbortSignal,
    ms = JSON_MS_MAX,
  ): Promise<{ status: number; body: JsonObject | null; text: string }> {
    const { status, bytes } = await this.send(method, path, body, signal, { ms })
    const text = await collect(bytes)
    return { status, body: parsed(text), text }
  }

  client(signal?: AbortSignal): JsonClient {
    return {
      get: async (path) => {
        const { status, body, text } = await this.json('GET', path, null, signal)
        if (status === 401 || status === 403) throw refusal(this.url, status, quoted(text))
        return status === 200 ? body : null
      },
      post: (path, body) => this.json('POST', path, body, signal),
    }
  }

  close(): void {
    this.pool.destroy().catch(() => undefined)
  }
}

/** Headers with the W3C trace context of the current span. */
const traced = (headers: Readonly<Record<string, string>>): Record<string, string> => {
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

const parsed = (text: string): JsonObject | null => {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) ? { data: value as unknown } : isJsonObject(value) ? value : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

export const collect = async (bytes: AsyncIterable<Uint8Array>): Promise<string> => {
  const all: Uint8Array[] = []
  let length = 0
  for await (const some of bytes) {
    length += some.length
    if (length > BODY_BYTES_MAX) throw new EngineFault('said', 'an answer of more than 64 MiB')
    all.push(some)
  }
  return Buffer.concat(all).toString('utf8')
}
