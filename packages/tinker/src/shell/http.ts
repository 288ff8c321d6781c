/**
 * HTTP to one training server. Every response has a limit of time, from the request to its last byte, and of bytes.
 * The key goes to the server's own origin only and stands in no message.
 */
import { Pool, request as requestOnce, type Dispatcher } from 'undici'
import { InstarError } from '@instar/events/errors'
import { LONGEST_WAIT_MS } from '../core/polling.ts'

/** Milliseconds; each for a whole response. `pollMs`: of `retrieve_future`, which the server holds (SkyRL: 300 s). */
export type HttpLimits = { connectMs: number; answerMs: number; pollMs: number; archiveMs: number }

/** `retryAfterMs`: of the header Retry-After, at most LONGEST_WAIT_MS. `location`: of a redirect. */
export type HttpResponse = {
  status: number
  contentType: string
  location: string | null
  retryAfterMs: number | null
  bytes: Uint8Array
}

/**
 * No usable response. `sent` false: the connection was refused, so the server has not seen the request. `timedOut`: the limit of
 * time has passed, and the connection may have been whole.
 */
export class NoResponse extends Error {
  readonly sent: boolean
  readonly timedOut: boolean
  constructor(message: string, sent: boolean, options?: ErrorOptions & { timedOut?: boolean }) {
    super(message, options)
    this.name = 'NoResponse'
    this.sent = sent
    this.timedOut = options?.timedOut ?? false
  }
}

type Request = {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  body?: Uint8Array
  contentType?: string
  accept?: string
  limitMs?: number
  maxBytes?: number
  signal?: AbortSignal
  withoutKey?: boolean
}

/** Of all responses but the results of passes and archives. */
const BYTES_MAX = 4 << 20
const REFUSED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

export class TinkerHttp {
  /** Origin and path, without user, password and key. */
  readonly url: string
  readonly limits: HttpLimits
  readonly #prefix: string
  readonly #pool: Pool
  readonly #key: string | null

  constructor(url: string, key: string | null, limits: HttpLimits) {
    const { origin, pathname, protocol, username, password } = new URL(url)
    if (protocol !== 'http:' && protocol !== 'https:')
      throw new InstarError(
        'bad_request',
        `a training server's address begins with http:// or https://, not ${protocol}`,
      )
    if (username !== '' || password !== '')
      throw new InstarError(
        'bad_request',
        'the address of a training server has no user; its key is INSTAR_TRAINER_KEY',
      )
    this.#prefix = pathname.replace(/\/+$/, '')
    this.url = `${origin}${this.#prefix}`
    this.limits = limits
    this.#key = key
    this.#pool = new Pool(origin, {
      connections: 64,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { timeout: limits.connectMs },
    })
  }

  /** Throws NoResponse; InstarError `trainer_mismatch` for more than `maxBytes`, and the signal's reason. */
  async send(request: Request): Promise<HttpResponse> {
    const { method, path, body, contentType, accept, limitMs, maxBytes, signal, withoutKey = false } = request
    const headers: Record<string, string> = { accept: accept ?? 'application/json' }
    if (contentType !== undefined) headers['content-type'] = contentType
    if (this.#key !== null && !withoutKey) headers['x-api-key'] = this.#key
    return this.#within(`${this.url}${path}`, limitMs ?? this.limits.answerMs, maxBytes ?? BYTES_MAX, signal, (limit) =>
      this.#pool.request({ method, path: `${this.#prefix}${path}`, headers, body: body ?? null, signal: limit }),
    )
  }

  /** GET of an address that the server named; with the key only at its own origin. Redirects are not followed. */
  async fetch(url: URL, maxBytes: number, signal?: AbortSignal): Promise<HttpResponse> {
    const headers = this.#key !== null && url.origin === new URL(this.url).origin ? { 'x-api-key': this.#key } : {}
    // A signed address is a secret: the error names its host alone.
    return this.#within(url.host, this.limits.archiveMs, maxBytes, signal, (limit) =>
      requestOnce(url, { method: 'GET', headers, signal: limit, headersTimeout: 0, bodyTimeout: 0 }),
    )
  }

  /** The server's text without the key, which it may repeat. */
  textOf({ bytes }: HttpResponse): string {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
    return this.#key === null || this.#key === '' ? text : text.replaceAll(this.#key, '…')
  }

  async close(): Promise<void> {
    await this.#pool.destroy()
  }

  async #within(
    name: string,
    limitMs: number,
    maxBytes: number,
    signal: AbortSignal | undefined,
    start: (limit: AbortSignal) => Promise<Dispatcher.ResponseData>,
  ): Promise<HttpResponse> {
    const timer = AbortSignal.timeout(limitMs)
    const limit = signal ? AbortSignal.any([signal, timer]) : timer
    try {
      const { statusCode, headers, body } = await start(limit)
      const bytes = await collect(body, maxBytes, name)
      const one = (header: string): string | null => {
        const value = headers[header]
        return (Array.isArray(value) ? value[0] : value) ?? null
      }
      const seconds = Number(one('retry-after') ?? Number.NaN)
      return {
        status: statusCode,
        contentType: one('content-type') ?? '',
        location: one('location'),
        retryAfterMs: seconds >= 0 ? Math.min(1000 * seconds, LONGEST_WAIT_MS) : null,
        bytes,
      }
    } catch (error) {
      if (signal?.aborted) throw signal.reason
      if (error instanceof InstarError) throw error
      if (timer.aborted)
        throw new NoResponse(`${name} did not end a response within ${limitMs} ms`, true, { timedOut: true })
      const { code, message } = error as NodeJS.ErrnoException
      throw new NoResponse(`${name}: ${code ?? message}`, !REFUSED.has(code ?? ''), { cause: error })
    }
  }
}

const collect = async (body: AsyncIterable<Uint8Array>, maxBytes: number, name: string): Promise<Uint8Array> => {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of body) {
    length += chunk.length
    if (length > maxBytes)
      throw new InstarError('trainer_mismatch', `a response of ${name} has more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}
