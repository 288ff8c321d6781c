/**
 * Commands to a running gateway, over its admin API. By node:http, which waits as long as it is told to. What
 * did not reach a gateway is `not_running`; what reached one and was not answered is `no_reply`, since it may
 * have been done.
 */
import { ERRORS, InstarError, type ErrorCode } from '@instar/events/errors'
import { ADMIN_TOKEN_HEADER, readAdminToken } from '@instar/gateway/admin-token'
import { lookup } from 'node:dns/promises'
import { request as openRequest, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { gatewayUrl, type Config } from './config.ts'

export type Reply = { head: number; version: number; frozen: boolean }

/**
 * `key`: the API key to send, where the gateway wants one. The admin token is what a gateway without keys wants; its
 * file need not be there.
 */
type Place = Pick<Config, 'host' | 'port'> & Partial<Pick<Config, 'key' | 'adminToken' | 'adminTokenFile'>>
type Sending = { body?: unknown; accept: string; silenceMs: number; signal?: AbortSignal | undefined }
/** `fault`: what an error while the response is read means. */
type Sent = { response: IncomingMessage; fault(cause: unknown): Error }

/** Heartbeats come every ten seconds. */
const SILENCE_MS = 60_000

/** The gateway's own error, `not_running` or `no_reply`. `body` given: a command. `timeoutMs`: the longest silence. */
export const ask = async <T>(config: Place, path: string, body?: unknown, { timeoutMs = 120_000 } = {}): Promise<T> => {
  const { response, fault } = await send(config, path, { body, accept: 'application/json', silenceMs: timeoutMs })
  const said = await saidBy(response, fault)
  if (response.statusCode === 200 && said !== null) return said as T
  throw faultOf(said, response.statusCode, gatewayUrl(config))
}

/**
 * Waits until each gateway behind the name INSTAR_HOST serves the head as of now; one that does not answer is left out,
 * since it takes the head when it is back. What did answer and does not serve it throws `not_served`.
 */
export const askEveryGateway = async (config: Place): Promise<void> => {
  const places = await lookup(new URL(gatewayUrl(config)).hostname.replace(/^\[|\]$/g, ''), { all: true })
  await Promise.all(
    places.map(async ({ address }) => {
      try {
        await ask({ ...config, host: address }, '/admin/served', {})
      } catch (error) {
        if (!(error instanceof InstarError) || (error.code !== 'not_running' && error.code !== 'no_reply')) throw error
      }
    }),
  )
}

/** A command that may take long: what it says until it is done, heartbeats left out. Throws as `ask`, and `aborted`. */
export const askLines = async function* <T>(
  config: Place,
  path: string,
  body: unknown,
  signal: AbortSignal,
  { silenceMs = SILENCE_MS } = {},
): AsyncGenerator<T> {
  const url = gatewayUrl(config)
  const { response, fault } = await send(config, path, { body, accept: 'application/x-ndjson', silenceMs, signal })
  if (response.statusCode !== 200) throw faultOf(await saidBy(response, fault), response.statusCode, url)
  try {
    let rest = ''
    for await (const piece of response.setEncoding('utf8') as AsyncIterable<string>) {
      const lines = (rest + piece).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const value = JSON.parse(line) as T
        if (typeof value === 'object' && value !== null && 'error' in value)
          throw faultOf(value, response.statusCode, url)
        if (typeof value !== 'object' || value === null || !('heartbeat' in value)) yield value
      }
    }
  } catch (cause) {
    throw cause instanceof InstarError ? cause : fault(cause)
  } finally {
    response.destroy()
  }
}

const send = (config: Place, path: string, { body, accept, silenceMs, signal }: Sending): Promise<Sent> => {
  const url = gatewayUrl(config)
  let silent = false
  const fault = (cause: unknown): Error => {
    if (signal?.aborted) return new InstarError('aborted', 'The command was given up.', {}, { cause })
    if (silent)
      return new InstarError(
        'no_reply',
        `The gateway at ${url} said nothing for ${silenceMs / 1000} s.`,
        { url },
        { cause },
      )
    if (neverArrived(cause)) return new InstarError('not_running', `No gateway answers at ${url}.`, { url }, { cause })
    return new InstarError(
      'no_reply',
      `The gateway at ${url} closed the connection before it answered.`,
      { url },
      { cause },
    )
  }
  return new Promise((resolve, reject) => {
    const sending = openRequest(
      `${url}${path}`,
      {
        method: body === undefined ? 'GET' : 'POST',
        agent: false,
        signal,
        headers: {
          accept,
          ...adminHeader(config),
          ...(config.key ? { authorization: `Bearer ${config.key}` } : {}),
          ...(body === undefined ? {} : { 'content-type': 'application/json', 'x-instar-who': 'cli' }),
        },
      },
      (response) => resolve({ response, fault }),
    )
    sending.setTimeout(silenceMs, () => {
      silent = true
      sending.destroy()
    })
    sending.on('error', (cause) => reject(fault(cause)))
    sending.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

/** The gateway on this machine, or on the same volume, wrote the file; what cannot be read is not sent. */
const adminHeader = ({ adminToken, adminTokenFile }: Place): Record<string, string> => {
  const token = adminToken ?? tokenIn(adminTokenFile)
  return token === null ? {} : { [ADMIN_TOKEN_HEADER]: token }
}

const tokenIn = (file: string | undefined): string | null => {
  try {
    return file === undefined ? null : readAdminToken(file)
  } catch (error) {
    if (error instanceof InstarError) return null
    throw error
  }
}

/** No connection, or none that speaks HTTP. */
const neverArrived = (cause: unknown): boolean => {
  const error = (cause instanceof AggregateError ? cause.errors[0] : cause) as NodeJS.ErrnoException
  return error.syscall === 'connect' || error.syscall === 'getaddrinfo' || (error.code ?? '').startsWith('HPE_')
}

/** Null for what is no JSON. */
const saidBy = async (response: IncomingMessage, fault: Sent['fault']): Promise<unknown> => {
  const body = await text(response).catch((cause: unknown) => {
    throw fault(cause)
  })
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}

const isCode = (code: unknown): code is ErrorCode => typeof code === 'string' && code in ERRORS

const faultOf = (said: unknown, status: number | undefined, url: string): InstarError => {
  const error = (said as { error?: { code?: unknown; message?: unknown } } | null)?.error
  if (!isCode(error?.code))
    return new InstarError('not_running', `What answers at ${url} is no gateway of Instar (HTTP ${status}).`, { url })
  return new InstarError(error.code, typeof error.message === 'string' ? error.message : ERRORS[error.code].meaning)
}
