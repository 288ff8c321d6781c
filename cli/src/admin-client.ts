/**
 * A client of the gateway's admin API. Uses node:http, which sets no timeout by itself. An error before the request
 * reached a gateway is `not_running`; an error after that is `no_reply`, since the command may have taken effect.
 */
import { ERRORS, InstarError, type ErrorCode } from '@instar/events/errors'
import { ADMIN_TOKEN_HEADER, readAdminToken } from '@instar/process/admin-token'
import { lookup } from 'node:dns/promises'
import { request as createRequest, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { gatewayUrl, type Config } from './config.ts'

/** The reply to a command that changes the head. `version`: the one that serves. */
export type HeadReply = { head: number; version: number; frozen: boolean }

/**
 * `key`: the API key, for a gateway that has keys. The admin token is for a gateway without keys; its file may be
 * missing.
 */
type GatewayAccess = Pick<Config, 'host' | 'port'> & Partial<Pick<Config, 'key' | 'adminToken' | 'adminTokenFile'>>
type RequestOptions = { body?: unknown; accept: string; silenceMs: number; signal?: AbortSignal | undefined }
/** `readError`: turns an error while the response is read into an `InstarError`. */
type OpenResponse = { response: IncomingMessage; readError(cause: unknown): Error }

/** Longest time without a byte; a gateway sends a heartbeat every ten seconds. */
const SILENCE_MS = 60_000

/**
 * Sends one request: GET, or POST if there is a `body`. `timeoutMs`: longest time without a byte. Throws the gateway's
 * own error, `not_running` or `no_reply`.
 */
export const requestAdmin = async <T>(
  gateway: GatewayAccess,
  path: string,
  body?: unknown,
  { timeoutMs = 120_000 } = {},
): Promise<T> => {
  const { response, readError } = await openResponse(gateway, path, {
    body,
    accept: 'application/json',
    silenceMs: timeoutMs,
  })
  const reply = await readJson(response, readError)
  if (response.statusCode === 200 && reply !== null) return reply as T
  throw errorOf(reply, response.statusCode, gatewayUrl(gateway))
}

/**
 * Waits until every gateway behind the name INSTAR_HOST serves the current head. A gateway that does not answer is
 * skipped, since it loads the head when it starts. Throws `not_served` for one that answers and does not serve it.
 */
export const waitForGateways = async (gateway: GatewayAccess): Promise<void> => {
  const addresses = await lookup(new URL(gatewayUrl(gateway)).hostname.replace(/^\[|\]$/g, ''), { all: true })
  await Promise.all(
    addresses.map(async ({ address }) => {
      try {
        await requestAdmin({ ...gateway, host: address }, '/admin/served', {})
      } catch (error) {
        if (!(error instanceof InstarError) || (error.code !== 'not_running' && error.code !== 'no_reply')) throw error
      }
    }),
  )
}

/**
 * Sends a command whose reply is a stream of JSON lines; yields them without the heartbeats. Throws as `requestAdmin`,
 * and `aborted`.
 */
export const streamAdmin = async function* <T>(
  gateway: GatewayAccess,
  path: string,
  body: unknown,
  signal: AbortSignal,
  { silenceMs = SILENCE_MS } = {},
): AsyncGenerator<T> {
  const url = gatewayUrl(gateway)
  const { response, readError } = await openResponse(gateway, path, {
    body,
    accept: 'application/x-ndjson',
    silenceMs,
    signal,
  })
  if (response.statusCode !== 200) throw errorOf(await readJson(response, readError), response.statusCode, url)
  try {
    let rest = ''
    for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const value = JSON.parse(line) as T
        if (typeof value === 'object' && value !== null && 'error' in value)
          throw errorOf(value, response.statusCode, url)
        if (typeof value !== 'object' || value === null || !('heartbeat' in value)) yield value
      }
    }
  } catch (cause) {
    throw cause instanceof InstarError ? cause : readError(cause)
  } finally {
    response.destroy()
  }
}

const openResponse = (
  gateway: GatewayAccess,
  path: string,
  { body, accept, silenceMs, signal }: RequestOptions,
): Promise<OpenResponse> => {
  const url = gatewayUrl(gateway)
  let timedOut = false
  const readError = (cause: unknown): Error => {
    if (signal?.aborted) return new InstarError('aborted', 'The command was aborted.', {}, { cause })
    if (timedOut)
      return new InstarError(
        'no_reply',
        `The gateway at ${url} sent nothing for ${silenceMs / 1000} s.`,
        { url },
        { cause },
      )
    if (neverConnected(cause))
      return new InstarError('not_running', `No gateway answers at ${url}.`, { url }, { cause })
    return new InstarError(
      'no_reply',
      `The gateway at ${url} closed the connection before it answered.`,
      { url },
      { cause },
    )
  }
  return new Promise((resolve, reject) => {
    const request = createRequest(
      `${url}${path}`,
      {
        method: body === undefined ? 'GET' : 'POST',
        agent: false,
        signal,
        headers: {
          accept,
          ...adminHeaders(gateway),
          ...(gateway.key ? { authorization: `Bearer ${gateway.key}` } : {}),
          ...(body === undefined ? {} : { 'content-type': 'application/json', 'x-instar-who': 'cli' }),
        },
      },
      (response) => resolve({ response, readError }),
    )
    request.setTimeout(silenceMs, () => {
      timedOut = true
      request.destroy()
    })
    request.on('error', (cause) => reject(readError(cause)))
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

const adminHeaders = ({ adminToken, adminTokenFile }: GatewayAccess): Record<string, string> => {
  const token = adminToken ?? readTokenFile(adminTokenFile)
  return token === null ? {} : { [ADMIN_TOKEN_HEADER]: token }
}

/**
 * Null for a file that cannot be read: the gateway may be on another machine, or have keys. Throws `file_not_private`.
 */
const readTokenFile = (file: string | undefined): string | null => {
  try {
    return file === undefined ? null : readAdminToken(file)
  } catch (error) {
    if (error instanceof InstarError && error.code !== 'file_not_private') return null
    throw error
  }
}

/** Whether the connection failed, or the server does not use HTTP. */
const neverConnected = (cause: unknown): boolean => {
  const error = (cause instanceof AggregateError ? cause.errors[0] : cause) as NodeJS.ErrnoException
  return error.syscall === 'connect' || error.syscall === 'getaddrinfo' || (error.code ?? '').startsWith('HPE_')
}

/** Null for a body that is not JSON. */
const readJson = async (response: IncomingMessage, readError: OpenResponse['readError']): Promise<unknown> => {
  const body = await text(response).catch((cause: unknown) => {
    throw readError(cause)
  })
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}

const isErrorCode = (code: unknown): code is ErrorCode => typeof code === 'string' && code in ERRORS

/** The gateway's error; `not_running` for a reply that is not a gateway's. */
const errorOf = (reply: unknown, status: number | undefined, url: string): InstarError => {
  const error = (reply as { error?: { code?: unknown; message?: unknown } } | null)?.error
  if (!isErrorCode(error?.code))
    return new InstarError('not_running', `The server at ${url} is not a gateway of Instar (HTTP ${status}).`, { url })
  return new InstarError(error.code, typeof error.message === 'string' ? error.message : ERRORS[error.code].meaning)
}
