/** The HTTP server below the framework: its time limits, and how many requests one connection may send ahead. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Connections } from './connections.ts'
import { linger } from './lingering.ts'

type Handler = (request: IncomingMessage, response: ServerResponse) => void
type ListenerSettings = { headersTimeoutMs: number; requestTimeoutMs: number }

/**
 * Requests of one connection that may wait for their responses, the one that is answered with them. One read of a connection holds
 * hundreds of small requests, which Node hands over before anything else is done, and whose responses wait in memory.
 */
export const MOST_PIPELINED = 32
/** As the framework's own. */
const KEEP_ALIVE_MS = 72_000

/** Closes the connection of a request that is one too many, and handles none after it. */
const inOrder =
  (handler: Handler, connections: Connections): Handler =>
  (request, response) => {
    const { socket } = request
    if (socket.destroyed) return
    if (connections.answered(socket) >= MOST_PIPELINED) return void socket.destroy()
    response.once('close', connections.answering(request))
    handler(request, response)
  }

export const createListener = (
  handler: Handler,
  connections: Connections,
  { headersTimeoutMs, requestTimeoutMs }: ListenerSettings,
): Server => {
  const headersTimeout = Math.min(headersTimeoutMs, requestTimeoutMs)
  const server = createServer(
    {
      requireHostHeader: false,
      headersTimeout,
      requestTimeout: requestTimeoutMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      // Node checks timeouts at intervals, so a request may take half its limit longer.
      connectionsCheckingInterval: Math.ceil(headersTimeout / 2),
    },
    inOrder(handler, connections),
  )
  connections.limit(server)
  linger(server)
  // Expectations other than `100-continue` are ignored.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  return server
}
