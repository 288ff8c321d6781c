/** Sessions of the server: opened, and kept alive by heartbeats. SkyRL 0.4.0 unloads the models of one after 300 s. */
import { InstarError } from '@instar/events/errors'
import { parseJsonObject } from '@instar/events/json'
import { refusal } from '../core/refusals.ts'
import type { Futures } from './futures.ts'
import type { TinkerHttp } from './http.ts'

/** As the SDK sends them. */
const HEARTBEAT_MS = 10_000
/** Servers read it as the version of their SDK; some refuse clients that are too old. */
const SDK_VERSION = '0.38.0'

export class Sessions {
  readonly #http: TinkerHttp
  readonly #futures: Futures
  readonly #heartbeatMs: number
  readonly #timers = new Map<string, NodeJS.Timeout>()
  /** Heartbeats that failed since the last that was answered, for each session. */
  readonly #missed = new Map<string, number>()

  constructor(http: TinkerHttp, futures: Futures, heartbeatMs = HEARTBEAT_MS) {
    this.#http = http
    this.#futures = futures
    this.#heartbeatMs = heartbeatMs
  }

  async open(signal?: AbortSignal): Promise<string> {
    const body = { tags: [], user_metadata: null, sdk_version: SDK_VERSION, type: 'create_session' }
    const response = await this.#futures.ask(
      'create_session',
      { method: 'POST', path: '/api/v1/create_session', body },
      signal,
    )
    const text = this.#http.textOf(response)
    const session = parseJsonObject(text)?.['session_id']
    if (response.status !== 200) throw refusal(this.#http.url, 'create_session', response.status, text)
    if (typeof session !== 'string' || session === '')
      throw new InstarError('trainer_mismatch', `${this.#http.url} answered create_session without a session_id`)
    this.#beat(session)
    return session
  }

  async resume(session: string, signal?: AbortSignal): Promise<void> {
    const response = await this.#heartbeat(session, signal)
    if (response.status === 404 || response.status === 410)
      throw new InstarError('trainer_model_lost', `${this.#http.url} does not know the session ${session}`, { session })
    if (response.status !== 200)
      throw refusal(this.#http.url, 'session_heartbeat', response.status, this.#http.textOf(response))
    this.#beat(session)
  }

  /** Heartbeats in succession without an answer of 200; 0 for a session that is kept alive. */
  missed(session: string): number {
    return this.#missed.get(session) ?? 0
  }

  end(session: string): void {
    clearInterval(this.#timers.get(session))
    this.#timers.delete(session)
    this.#missed.delete(session)
  }

  close(): void {
    for (const session of this.#timers.keys()) this.end(session)
  }

  #beat(session: string): void {
    if (this.#timers.has(session)) return
    const timer = setInterval(() => {
      void this.#heartbeat(session).then(
        ({ status }) => this.#count(session, status === 200),
        () => this.#count(session, false),
      )
    }, this.#heartbeatMs)
    this.#timers.set(session, timer.unref())
    this.#missed.set(session, 0)
  }

  #count(session: string, answered: boolean): void {
    if (this.#timers.has(session)) this.#missed.set(session, answered ? 0 : this.missed(session) + 1)
  }

  #heartbeat(session: string, signal?: AbortSignal): ReturnType<Futures['ask']> {
    const body = { session_id: session, type: 'session_heartbeat' }
    return this.#futures.ask('session_heartbeat', { method: 'POST', path: '/api/v1/session_heartbeat', body }, signal)
  }
}
