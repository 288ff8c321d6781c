/** Commands to a running gateway, over its admin API. */
import { ERRORS, InstarError, type ErrorCode } from '@instar/events/errors'
import { gatewayUrl, type Config } from './config.ts'

export type Reply = { head: number; version: number; frozen: boolean }

const isCode = (code: unknown): code is ErrorCode => typeof code === 'string' && code in ERRORS
const isGone = (error: unknown): boolean => error instanceof TypeError || (error instanceof DOMException && error.name === 'TimeoutError')

/** The gateway's own error, or `not_running` when none answers. `get` for questions, `post` for commands. */
export const ask = async <T>(config: Pick<Config, 'host' | 'port'>, path: string, body?: unknown, { timeoutMs = 120_000 } = {}): Promise<T> => {
  const url = gatewayUrl(config)
  let response: Response
  try {
    response = await fetch(`${url}${path}`, {
      ...(body === undefined ? {} : { method: 'POST', headers: { 'content-type': 'application/json', 'x-instar-who': 'cli' }, body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMs),
    })
  } catch (cause) {
    if (!isGone(cause)) throw cause
    throw new InstarError('not_running', `No gateway answers at ${url}.`, { url }, { cause })
  }
  const said: unknown = await response.json().catch(() => null)
  if (response.ok) return said as T
  const error = (said as { error?: { code?: unknown; message?: unknown } } | null)?.error
  if (!isCode(error?.code)) throw new InstarError('not_running', `What answers at ${url} is no gateway of Instar (HTTP ${response.status}).`, { url })
  throw new InstarError(error.code, String(error.message ?? ERRORS[error.code].meaning))
}
