/**
 * Closing a connection while the client still sends can lose the response: the kernel sends a reset, which discards
 * undelivered data (RFC 9112, section 9.6). So the response is ended first and the rest of the request is read and
 * dropped.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** How long the rest of a request is read, in milliseconds. */
const LINGER_MS = 2000

/** Node closes a connection after its last response with `destroySoon`, even if the request is incomplete. */
export const linger = (server: Server): void => {
  const latest = new WeakMap<Socket, { request: IncomingMessage; response: ServerResponse }>()
  server.on('request', (request, response) => latest.set(request.socket, { request, response }))
  server.on('connection', (socket: Socket) => {
    const close = socket.destroySoon.bind(socket)
    socket.destroySoon = () => {
      const { request, response } = latest.get(socket) ?? {}
      // A second call, or a connection without a valid request, closes at once.
      socket.destroySoon = close
      if (!request || request.complete || !response?.writableFinished || socket.readableEnded) return close()
      socket.end()
      const late = setTimeout(() => socket.destroy(), LINGER_MS)
      socket.once('close', () => clearTimeout(late))
      request.once('end', close).resume()
    }
  })
}
