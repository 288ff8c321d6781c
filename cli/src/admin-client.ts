/**
 * A client of the gateway's admin API. Uses node:http, which sets no timeout by itself. An error before the request
 * reached a gateway is `not_running`; an error after that is `no_reply`, since the command may have taken effect.
 */
import { ERRORS, InstarError, type ErrorCode } from '@instar/events/errors'
import { ADMIN_TOKEN_HEADER, readAdminToken } from '@instar/process/admin-token'
import { provenConnection } from '@instar/process/proven-connection'
import { lookup } from 'node:dns/promises'
import { request as createRequest, type Agent, type IncomingMessage } from 'node:http'
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

type Headers = Record<string, string>
/** Resolves with the response once its headers are there. */
type Send = (
  path: string,
  request: { agent: Agent | false; headers: Headers; body?: string },
) => Promise<IncomingMessage>
type Access = { agent: Agent | false; headers: Headers }

/** Longest time without a byte; a gateway sends a heartbeat every ten seconds. */
const SILENCE_MS = 60_000

/**
 * Sends one request: GET, or POST if there is a `body`. `timeoutMs`: longest time without a byte. Throws the gateway's
 * own error, `not_running`, `no_reply` or `gateway_not_proven`.
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

/** `readError`: turns an error of the connection into an `InstarError`. */
const senderTo = (
  url: string,
  { silenceMs, signal }: Pick<RequestOptions, 'silenceMs' | 'signal'>,
): { send: Send; readError: OpenResponse['readError'] } => {
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
  const send: Send = (path, { agent, headers, body }) =>
    new Promise((resolve, reject) => {
      const request = createRequest(
        `${url}${path}`,
        { method: body === undefined ? 'GET' : 'POST', agent, signal, headers },
        resolve,
      )
      request.setTimeout(silenceMs, () => {
        timedOut = true
        request.destroy()
      })
      request.on('error', (cause) => reject(readError(cause)))
      request.end(body)
    })
  return { send, readError }
}

/** The command is the last request on its connection. */
const openResponse = async (
  gateway: GatewayAccess,
  path: string,
  { body, accept, silenceMs, signal }: RequestOptions,
): Promise<OpenResponse> => {
  const { send, readError } = senderTo(gatewayUrl(gateway), { silenceMs, signal })
  const { agent, headers } = await accessOf(gateway, send)
  const response = await send(path, {
    agent,
    headers: {
      accept,
      connection: 'close',
      ...headers,
      ...(gateway.key ? { authorization: `Bearer ${gateway.key}` } : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json', 'x-instar-who': 'cli' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { response, readError }
}

/**
 * The header with the admin token, and the connection that it may be sent on. A token of INSTAR_ADMIN_TOKEN is sent
 * unasked: whoever sets it has chosen the address with it. That of a file is sent to a gateway that has shown that it
 * knows it; to another server goes the API key alone. Throws `gateway_not_proven` where there is none.
 */
const accessOf = async (gateway: GatewayAccess, send: Send): Promise<Access> => {
  if (gateway.adminToken) return { agent: false, headers: { [ADMIN_TOKEN_HEADER]: gateway.adminToken } }
  const token = readTokenFile(gateway.adminTokenFile)
  if (token === null) return { agent: false, headers: {} }
  const { agent, status } = await provenConnection(token, (path, agent) =>
    send(path, { agent, headers: { accept: 'application/json' } }),
  )
  if (agent !== null) return { agent, headers: { [ADMIN_TOKEN_HEADER]: token } }
  if (gateway.key) return { agent: false, headers: {} }
  const url = gatewayUrl(gateway)
  throw new InstarError(
    'gateway_not_proven',
    `The server at ${url} does not show that it knows the token in ${gateway.adminTokenFile} (HTTP ${status}); nothing was sent to it.`,
    { url },
  )
}

/**
 * The admin token for a client that makes its own connections. Null: there is none, or it must not be sent and there is
 * an API key. Throws as `requestAdmin`.
 */
export const tokenFor = async (gateway: GatewayAccess): Promise<string | null> => {
  if (gateway.adminToken) return gateway.adminToken
  const { send } = senderTo(gatewayUrl(gateway), { silenceMs: SILENCE_MS, signal: undefined })
  const { agent, headers } = await accessOf(gateway, send)
  if (agent !== false) agent.destroy()
  return headers[ADMIN_TOKEN_HEADER] ?? null
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
