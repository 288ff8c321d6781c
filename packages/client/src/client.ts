import { request, type RequestPorts, type Sending } from './request.ts'
import type { Closed, Feedback, FeedbackGiven, FeedbackOptions, Session, Status, Value, Version } from './types.ts'

export type ClientOptions = {
  /** Of the gateway, with or without /v1. */
  baseURL?: string
  apiKey?: string | null
  /** After the first try. Default 4. */
  maxRetries?: number
  /** For one try. Default 30 s. */
  timeoutMs?: number
  /** The longest wait between two tries; an answer that asks for more ends the request. Default 60 s. */
  maxWaitMs?: number
  fetch?: typeof fetch
}

export type Client = {
  /** A label for all requests of one conversation: one of yours, else a new one. */
  session(id?: string): Session
  feedback(feedback: Feedback): Promise<FeedbackGiven>
  close(session: string, options?: { signal?: AbortSignal }): Promise<Closed>
  /** The base and the newest, newest first. */
  versions(options?: { signal?: AbortSignal }): Promise<Version[]>
  /** Needs a key with the scope admin, where there are keys. */
  status(options?: { signal?: AbortSignal }): Promise<Status>
  /** Whether it answers requests now; asked once. */
  ready(options?: { signal?: AbortSignal }): Promise<boolean>
}

const DEFAULT = 'http://127.0.0.1:30000'

export const createClient = ({
  baseURL = DEFAULT,
  apiKey = null,
  maxRetries = 4,
  timeoutMs = 30_000,
  maxWaitMs = 60_000,
  fetch: given,
}: ClientOptions = {}): Client => {
  const root = baseURL.replace(/\/+$/, '').replace(/\/v1$/, '')
  const ports: RequestPorts = {
    root,
    apiKey,
    maxRetries,
    timeoutMs,
    maxWaitMs,
    fetch: given ?? ((...args) => fetch(...args)),
  }
  const ask = async <T>(sending: Sending): Promise<T> => (await request(ports, sending)) as T

  const feedback = async ({
    value,
    comment,
    user,
    idempotencyKey = crypto.randomUUID(),
    signal,
    ...of
  }: Feedback): Promise<FeedbackGiven> => {
    const named = 'turn' in of ? { turn_id: of.turn } : { session_id: of.session }
    const given = await ask<{ id: string; session_id: string; turn_id: string | null; value: number }>({
      method: 'POST',
      path: '/v1/feedback',
      signal,
      headers: { 'idempotency-key': idempotencyKey },
      body: { ...named, value, ...(comment === undefined ? {} : { comment }), ...(user === undefined ? {} : { user }) },
    })
    return { id: given.id, session: given.session_id, turn: given.turn_id, value: given.value }
  }

  const close = async (session: string, { signal }: { signal?: AbortSignal } = {}): Promise<Closed> => {
    const { session_id: id, closed } = await ask<{ session_id: string; closed: string[] }>({
      method: 'POST',
      path: `/v1/sessions/${encodeURIComponent(session)}/close`,
      signal,
    })
    return { session: id, closed }
  }

  return {
    feedback,
    close,
    session(id = crypto.randomUUID()) {
      if (!/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(id))
        throw new TypeError('The id of a session goes into a header: printable ASCII, no blanks at its ends.')
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
      const { data } = await ask<{ data: { id: string; created: number; parent: string | null }[] }>({
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
    status: ({ signal } = {}) => ask<Status>({ method: 'GET', path: '/admin/status', signal }),
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

/** Of `policy@3`; null where the name has none. */
const versionOf = (name: string | null): number | null => {
  const match = /@(\d+)$/.exec(name ?? '')
  return match ? Number(match[1]) : null
}
