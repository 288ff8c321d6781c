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
  throw faultOf(said, response.status, url)
}

const faultOf = (said: unknown, status: number, url: string): InstarError => {
  const error = (said as { error?: { code?: unknown; message?: unknown } } | null)?.error
  if (!isCode(error?.code)) return new InstarError('not_running', `What answers at ${url} is no gateway of Instar (HTTP ${status}).`, { url })
  return new InstarError(error.code, typeof error.message === 'string' ? error.message : ERRORS[error.code].meaning)
}

/** A command whose reply is one JSON value a line, as they come. */
export const askLines = async function* <T>(config: Pick<Config, 'host' | 'port'>, path: string, body: unknown, signal: AbortSignal): AsyncGenerator<T> {
  const url = gatewayUrl(config)
  let response: Response
  try {
    response = await fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-instar-who': 'cli' }, body: JSON.stringify(body), signal })
  } catch (cause) {
    if (!isGone(cause)) throw cause
    throw new InstarError('not_running', `No gateway answers at ${url}.`, { url }, { cause })
  }
  if (!response.ok || !response.body) throw faultOf(await response.json().catch(() => null), response.status, url)
  let rest = ''
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const value = JSON.parse(line) as T
      if (typeof value === 'object' && value !== null && 'error' in value) throw faultOf(value, response.status, url)
      yield value
    }
  }
}
