/**
 * HTTP to one engine. A connection that does not come, an answer that does not begin and one that falls silent each
 * have their own limit; what went wrong is an `EngineFault`.
 */
import { Agent as PlainAgent, request as plainRequest, type IncomingMessage } from 'node:http'
import { Agent as SecureAgent, request as secureRequest } from 'node:https'
import { refusal } from '../../core/engines/faults.ts'
import { isFields, type Asking, type Fields } from '../../core/engines/wire.ts'
import { traced } from '../spans.ts'

export type Timeouts = { connectMs: number; firstByteMs: number; idleMs: number }

/** `unreachable`: no connection; `cut`: it broke; `timeout`: a limit passed; `status`: an HTTP status; `said`: an error inside an answer. */
export class EngineFault extends Error {
  readonly kind: 'unreachable' | 'cut' | 'timeout' | 'status' | 'said'
  /** 0 where there was none. */
  readonly status: number
  /** Milliseconds, of Retry-After. */
  readonly retryAfterMs: number | null
  constructor(kind: EngineFault['kind'], message: string, status = 0, retryAfterMs: number | null = null, options?: ErrorOptions) {
    super(message, options)
    this.kind = kind
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

export type Exchange = { status: number; retryAfterMs: number | null; bytes: AsyncGenerator<Uint8Array> }

/** Of what an engine says, as much as a message quotes. */
const QUOTED = 300
const LARGEST_BODY = 64 * 1024 * 1024
/** So many times longer than the first token an answer may take that comes in one piece. */
const WHOLE_ANSWER = 2
/** For a probe, or an adapter that comes from a slow disk. */
const WHOLE_MS = 120_000

export class EngineHttp {
  readonly url: string
  private readonly base: URL
  private readonly headers: Readonly<Record<string, string>>
  private readonly agent: PlainAgent | SecureAgent
  private readonly timeouts: Timeouts

  constructor(url: string, key: string | null, timeouts: Timeouts) {
    this.url = url
    this.base = new URL(url)
    this.headers = { 'content-type': 'application/json', ...(key === null ? {} : { authorization: `Bearer ${key}` }) }
    this.agent = new (this.base.protocol === 'https:' ? SecureAgent : PlainAgent)({ keepAlive: true })
    this.timeouts = timeouts
  }

  /** Resolves with the head of the answer; `bytes` must be read or returned. `whole`: it begins when all of it is there. */
  async send(method: 'GET' | 'POST', path: string, body: Fields | null, signal?: AbortSignal, whole = false, ms = this.timeouts.firstByteMs): Promise<Exchange> {
    const firstByteMs = whole ? WHOLE_ANSWER * ms : ms
    const { response, since } = await this.head(method, path, body, signal, firstByteMs)
    const seconds = Number(response.headers['retry-after'])
    return {
      status: response.statusCode ?? 0,
      retryAfterMs: response.headers['retry-after'] !== undefined && Number.isFinite(seconds) ? 1000 * seconds : null,
      bytes: this.read(response, Math.max(1, firstByteMs - (performance.now() - since)), signal),
    }
  }

  /** A whole answer. Throws EngineFault where there is none; a status is none of this function's business. */
  async json(method: 'GET' | 'POST', path: string, body: Fields | null, signal?: AbortSignal, ms = WHOLE_MS): Promise<{ status: number; body: Fields | null; text: string }> {
    const { status, bytes } = await this.send(method, path, body, signal, false, ms)
    const text = await collect(bytes)
    return { status, body: parsed(text), text }
  }

  asking(signal?: AbortSignal): Asking {
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
    this.agent.destroy()
  }

  private head(method: string, path: string, body: Fields | null, signal: AbortSignal | undefined, firstByteMs: number): Promise<{ response: IncomingMessage; since: number }> {
    const { connectMs } = this.timeouts
    const since = performance.now()
    const bytes = body === null ? null : Buffer.from(JSON.stringify(body))
    return new Promise((resolve, reject) => {
      const secure = this.base.protocol === 'https:'
      const sent = (secure ? secureRequest : plainRequest)({
        protocol: this.base.protocol, hostname: this.base.hostname.replace(/^\[|\]$/g, ''), port: this.base.port, path: `${this.base.pathname.replace(/\/$/, '')}${path}`, method, agent: this.agent,
        headers: traced(bytes === null ? this.headers : { ...this.headers, 'content-length': bytes.length }), ...(signal ? { signal } : {}),
      })
      let connected = false
      const connecting = setTimeout(() => sent.destroy(new EngineFault('unreachable', `no connection to ${this.url} within ${connectMs} ms`)), connectMs)
      const waiting = setTimeout(() => sent.destroy(new EngineFault('timeout', `${this.url} did not begin to answer within ${Math.round(firstByteMs)} ms`)), firstByteMs)
      const up = (): void => {
        connected = true
        clearTimeout(connecting)
      }
      sent.once('socket', (socket) => {
        if (socket.connecting) socket.once(secure ? 'secureConnect' : 'connect', up)
        else up()
      })
      sent.once('response', (response) => {
        up()
        clearTimeout(waiting)
        resolve({ response, since })
      })
      // Later errors come out of the response; the request must not throw them into the process.
      sent.on('error', (error: NodeJS.ErrnoException) => {
        clearTimeout(connecting)
        clearTimeout(waiting)
        reject(faultOf(error, signal, connected ? 'cut' : 'unreachable', this.url))
      })
      sent.end(bytes ?? undefined)
    })
  }

  private async *read(response: IncomingMessage, firstByteMs: number, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
    const { idleMs } = this.timeouts
    let began = false
    let timer: NodeJS.Timeout | undefined
    const rearm = (): void => {
      clearTimeout(timer)
      const ms = began ? idleMs : firstByteMs
      timer = setTimeout(() => response.destroy(new EngineFault('timeout', began ? `${this.url} fell silent for ${idleMs} ms in the middle of an answer` : `${this.url} did not begin to answer in time`)), ms)
    }
    rearm()
    try {
      for await (const bytes of response as AsyncIterable<Uint8Array>) {
        began = true
        clearTimeout(timer)
        yield bytes
        rearm()
      }
      if (!response.complete) throw new EngineFault('cut', `${this.url} cut its answer off`)
    } catch (error) {
      throw faultOf(error as NodeJS.ErrnoException, signal, 'cut', this.url)
    } finally {
      clearTimeout(timer)
      response.destroy()
    }
  }
}

const faultOf = (error: NodeJS.ErrnoException, signal: AbortSignal | undefined, kind: 'cut' | 'unreachable', url: string): Error =>
  error instanceof EngineFault || signal?.aborted ? error : new EngineFault(kind, `${url}: ${error.code ?? error.message}`, 0, null, { cause: error })

const parsed = (text: string): Fields | null => {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) ? { data: value as unknown } : isFields(value) ? value : null
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
    if (length > LARGEST_BODY) throw new EngineFault('said', 'an answer of more than 64 MiB')
    all.push(some)
  }
  return Buffer.concat(all).toString('utf8')
}

export const quoted = (text: string): string => (text.length > QUOTED ? `${text.slice(0, QUOTED)}…` : text)
