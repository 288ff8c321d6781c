/** Requests to the gateway, and hooks for their results. */
import { useCallback, useEffect, useState } from 'preact/hooks'
import { whenLive } from './live.ts'

export class ApiError extends Error {
  readonly code: string
  readonly status: number
  constructor(message: string, code: string, status: number) {
    super(message)
    this.code = code
    this.status = status
  }
}

export type Session = {
  signed_in: boolean
  /** Null: a session must begin with a key or a link. */
  may: { text: boolean; actions: boolean } | null
  database: boolean
  /** Requests need an API key. */
  keys: boolean
}

/**
 * The token of the session. The browser gives a storage to one address with its port, while it sends the cookie to the
 * servers of all ports of a host.
 */
const TOKEN = 'instar session'
let csrf: string | null = null
try {
  csrf = localStorage.getItem(TOKEN)
} catch {
  // Without a storage the session ends with the page.
}
const keepToken = (token: string | null): void => {
  csrf = token
  try {
    if (token === null) localStorage.removeItem(TOKEN)
    else localStorage.setItem(TOKEN, token)
  } catch {
    // As above.
  }
}

const errorOf = async (response: Response): Promise<ApiError> => {
  const body: unknown = await response.json().catch(() => null)
  const error = (body as { error?: { message?: string; code?: string; type?: string } } | null)?.error
  return new ApiError(
    error?.message ?? `The gateway answered ${response.status}.`,
    error?.code ?? error?.type ?? 'unknown',
    response.status,
  )
}

/** The response of a request that succeeded. Throws `ApiError`; code `unreachable` if the gateway does not answer. */
export const call = async (path: string, init: RequestInit = {}): Promise<Response> => {
  let response: Response
  try {
    response = await fetch(path, {
      credentials: 'same-origin',
      ...init,
      headers: {
        ...(init.method && init.method !== 'GET' ? { 'content-type': 'application/json' } : {}),
        ...(csrf ? { 'x-instar-csrf': csrf } : {}),
        ...init.headers,
      },
    })
  } catch (cause) {
    if ((cause as Error).name === 'AbortError') throw cause
    throw new ApiError('The gateway cannot be reached.', 'unreachable', 0)
  }
  if (!response.ok && response.status !== 304) throw await errorOf(response)
  return response
}

/** Answers that the gateway marks, by their path: it says that nothing has changed instead of sending them again. */
const kept = new Map<string, { etag: string; data: unknown }>()

/** The same object as before while the gateway says that nothing has changed. */
export const get = async <T>(path: string, signal?: AbortSignal): Promise<T> => {
  const known = kept.get(path)
  const response = await call(path, {
    ...(signal ? { signal } : {}),
    ...(known ? { headers: { 'if-none-match': known.etag } } : {}),
  })
  if (response.status === 304 && known) return known.data as T
  const data = (await response.json()) as T
  const etag = response.headers.get('etag')
  if (etag !== null) kept.set(path, { etag, data })
  return data
}

export const post = async <T>(path: string, body: unknown, headers: Record<string, string> = {}): Promise<T> =>
  (await call(path, { method: 'POST', body: JSON.stringify(body), headers })).json() as Promise<T>

/** The last line of the reply to a command that may take minutes: the gateway sends heartbeats meanwhile. */
export const postLong = async <T>(path: string, body: unknown, more: Record<string, string> = {}): Promise<T> => {
  const headers = { accept: 'application/x-ndjson', ...more }
  const lines = (await (await call(path, { method: 'POST', body: JSON.stringify(body), headers })).text()).trim()
  const last = JSON.parse(lines.slice(lines.lastIndexOf('\n') + 1)) as T & {
    error?: { message: string; code?: string }
  }
  if (last.error) throw new ApiError(last.error.message, last.error.code ?? 'unknown', 200)
  return last
}

export const readSession = (): Promise<Session> => get<Session>('/v1/dashboard/session')

/** With the code of a one-time link, or with an API key. */
export const signIn = async (by: { code: string } | { key: string }): Promise<void> => {
  const { csrf: token } =
    'code' in by
      ? await post<{ csrf: string }>('/v1/dashboard/session', { code: by.code })
      : await post<{ csrf: string }>('/v1/dashboard/session', {}, { authorization: `Bearer ${by.key}` })
  keepToken(token)
}

export const signOut = async (): Promise<void> => {
  await call('/v1/dashboard/session', { method: 'DELETE', body: '{}' })
  keepToken(null)
}

/** Saves what a path gives as a file. A link would not send the session's token. */
export const save = async (path: string, name: string): Promise<void> => {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(await (await call(path)).blob())
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

/** `reads`: readings that have ended, whatever came of them. `reload`: ends a reading that is under way. */
export type Loaded<T> = { data: T | null; error: ApiError | null; reads: number; reload: () => void }

/**
 * Reads `/v1/dashboard/<path>` again whenever the path changes, and after `reload`; null: nothing. Keeps the last data
 * meanwhile.
 */
export const useData = <T>(path: string | null): Loaded<T> => {
  const [state, setState] = useState<{
    path: string | null
    data: T | null
    error: ApiError | null
    reads: number
  }>({ path: null, data: null, error: null, reads: 0 })
  const [round, setRound] = useState(0)
  useEffect(() => {
    if (path === null) return undefined
    const ended = new AbortController()
    get<T>(`/v1/dashboard/${path}`, ended.signal)
      .then((data) => setState(({ reads }) => ({ path, data, error: null, reads: reads + 1 })))
      .catch((error: unknown) => {
        if (ended.signal.aborted) return
        setState((last) => ({
          path,
          data: last.path === path ? last.data : null,
          error: error instanceof ApiError ? error : new ApiError(String(error), 'unknown', 0),
          reads: last.reads + 1,
        }))
      })
    return () => ended.abort()
  }, [path, round])
  const reload = useCallback(() => setRound((last) => last + 1), [])
  const lost = state.path === path && state.error?.code === 'unreachable'
  // What could not be read while the gateway was away is read once it is back.
  useEffect(() => (lost ? whenLive(reload) : undefined), [lost, reload])
  const current = state.path === path
  return { data: current ? state.data : null, error: current ? state.error : null, reads: state.reads, reload }
}
