import { request, type RequestPorts, type RequestOptions } from './request.ts'
import type {
  CloseOptions,
  CloseResult,
  Feedback,
  FeedbackResult,
  FeedbackOptions,
  Session,
  Status,
  Value,
  Version,
} from './types.ts'

export type ClientOptions = {
  /** URL of the gateway, with or without /v1. Default http://127.0.0.1:30000. */
  baseURL?: string
  apiKey?: string | null
  /** Maximum number of retries. Default 4. */
  maxRetries?: number
  /** Timeout of one attempt in milliseconds. Default 30 000. */
  timeoutMs?: number
  /**
   * Maximum wait between two attempts in milliseconds; a response that asks for a longer one ends the retries. Default
   * 60 000.
   */
  maxWaitMs?: number
  fetch?: typeof fetch
}

export type Client = {
  /** A session: `id` labels all requests of one conversation. Default: a new UUID. Throws TypeError if invalid. */
  session(id?: string): Session
  feedback(feedback: Feedback): Promise<FeedbackResult>
  /** Ends a session: its last turn is scored now, and all its turns get the reward, if there is one. */
  close(session: string, options?: CloseOptions): Promise<CloseResult>
  /** The base model and the newest versions, the newest first. */
  versions(options?: { signal?: AbortSignal }): Promise<Version[]>
  /** Requires a key with the scope `admin` if the gateway has keys. */
  status(options?: { signal?: AbortSignal }): Promise<Status>
  /** Whether the gateway is ready. Makes one attempt; false if it is unreachable. */
  ready(options?: { signal?: AbortSignal }): Promise<boolean>
}

const DEFAULT_URL = 'http://127.0.0.1:30000'

export const createClient = ({
  baseURL = DEFAULT_URL,
  apiKey = null,
  maxRetries = 4,
  timeoutMs = 30_000,
  maxWaitMs = 60_000,
  fetch: customFetch,
}: ClientOptions = {}): Client => {
  const root = baseURL.replace(/\/+$/, '').replace(/\/v1$/, '')
  const ports: RequestPorts = {
    root,
    apiKey,
    maxRetries,
    timeoutMs,
    maxWaitMs,
    fetch: customFetch ?? ((...args) => fetch(...args)),
  }
  const send = async <T>(options: RequestOptions): Promise<T> => (await request(ports, options)) as T

  const feedback = async ({
    value,
    comment,
    user,
    idempotencyKey = crypto.randomUUID(),
    signal,
    ...of
  }: Feedback): Promise<FeedbackResult> => {
    const target = 'turn' in of ? { turn_id: of.turn } : { session_id: of.session }
    const result = await send<{ id: string; session_id: string; turn_id: string | null; value: number }>({
      method: 'POST',
      path: '/v1/feedback',
      signal,
      headers: { 'idempotency-key': idempotencyKey },
      body: {
        ...target,
        value,
        ...(comment === undefined ? {} : { comment }),
        ...(user === undefined ? {} : { user }),
      },
    })
    return { id: result.id, session: result.session_id, turn: result.turn_id, value: result.value }
  }

  const close = async (
    session: string,
    { reward, task, discarded, signal }: CloseOptions = {},
  ): Promise<CloseResult> => {
    const { session_id: id, closed } = await send<{ session_id: string; closed: string[] }>({
      method: 'POST',
      path: `/v1/sessions/${encodeURIComponent(session)}/close`,
      signal,
      body: {
        ...(reward === undefined ? {} : { reward }),
        ...(task === undefined ? {} : { task_id: task }),
        ...(discarded === undefined ? {} : { discarded }),
      },
    })
    return { session: id, closed }
  }

  return {
    feedback,
    close,
    session(id = crypto.randomUUID()) {
      if (!/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(id))
        throw new TypeError(
          `Session id ${JSON.stringify(id)} is not valid in a header: use printable ASCII without leading or trailing spaces.`,
        )
      const origin = `${root}/s/${encodeURIComponent(id)}`
      return {
        id,
        origin,
        baseURL: `${origin}/v1`,
        apiKey: apiKey ?? 'none',
        headers: { 'x-session-id': id, ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }) },
        feedback: (value: Value, options: FeedbackOptions = {}) => feedback({ session: id, value, ...options }),
        close: (options) => close(id, options),
      }
    },
    async versions({ signal } = {}) {
      const { data } = await send<{ data: { id: string; created: number; parent: string | null }[] }>({
        method: 'GET',
        path: '/v1/models',
        signal,
      })
      const numbers = data.map((card) => ({ ...card, version: versionOf(card.id) }))
      const head = versionOf(numbers.find(({ version }) => version === null)?.parent ?? null)
      return numbers.flatMap(({ id, version, parent, created }) =>
        version === null
          ? []
          : [{ version, model: id, parent: versionOf(parent), head: version === head, publishedAt: 1000 * created }],
      )
    },
    status: ({ signal } = {}) => send<Status>({ method: 'GET', path: '/admin/status', signal }),
    async ready({ signal } = {}) {
      try {
        await request({ ...ports, maxRetries: 0 }, { method: 'GET', path: '/health/ready', signal })
        return true
      } catch (error) {
        signal?.throwIfAborted()
        if (error instanceof Error) return false
        throw error
      }
    },
  }
}

/** The number in `policy@3`; null if the name has none. */
const versionOf = (name: string | null): number | null => {
  const match = /@(\d+)$/.exec(name ?? '')
  return match ? Number(match[1]) : null
}
