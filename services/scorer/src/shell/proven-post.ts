/** A request with the admin token of a file, on a connection on which the gateway has shown that it knows the token. */
import { InstarError } from '@instar/events'
import { provenConnection } from '@instar/process/proven-connection'
import { request, type Agent, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'

type Posted = { path: string; headers: Record<string, string>; body: string }

/** Statuses of responses that have no body. */
const BODILESS = new Set([204, 205, 304])

/**
 * `url`: of HTTP, without a slash at its end. Resolves as `fetch` and rejects as it does, and with `gateway_not_proven` before
 * anything of `posted` is sent. Redirects are not followed.
 */
export const provenPost = async (
  { url, token }: { url: string; token: string },
  { path, headers, body }: Posted,
  signal: AbortSignal,
): Promise<Response> => {
  const send = (to: string, agent: Agent, own: OutgoingHttpHeaders, text?: string): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const sent = request(
        `${url}${to}`,
        { method: text === undefined ? 'GET' : 'POST', agent, signal, headers: own },
        resolve,
      )
      sent.on('error', (cause) =>
        reject(signal.aborted ? (signal.reason as Error) : new TypeError('fetch failed', { cause })),
      )
      sent.end(text)
    })
  const { agent, status } = await provenConnection(token, (to, own) => send(to, own, { accept: 'application/json' }))
  if (agent === null)
    throw new InstarError(
      'gateway_not_proven',
      `The server at ${url} does not show that it knows the admin token of the file (HTTP ${status}); nothing was sent to it.`,
      { url },
    )
  try {
    // The last request on its connection.
    const response = await send(path, agent, { ...headers, connection: 'close' }, body)
    const { statusCode = 0, headersDistinct } = response
    const isBodiless = BODILESS.has(statusCode)
    if (isBodiless) response.resume()
    return new Response(isBodiless ? null : (Readable.toWeb(response) as ReadableStream<Uint8Array>), {
      status: statusCode,
      headers: Object.entries(headersDistinct).flatMap(([name, values]) =>
        (values ?? []).map((value): [string, string] => [name, value]),
      ),
    })
  } catch (error) {
    agent.destroy()
    throw error
  }
}
