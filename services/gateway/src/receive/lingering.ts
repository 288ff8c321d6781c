/**
 * A connection that is closed while its client still sends loses its answer: the kernel resets it, and a reset takes what
 * was not delivered along (RFC 9112, section 9.6). So the answer is ended first, and what comes is read and thrown away.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** How long what comes behind an answer is read, in milliseconds. */
const LINGER_MS = 2000

/** Node closes the connection of a last answer by `destroySoon`, wherever its request is. */
export const linger = (server: Server): void => {
  const latest = new WeakMap<Socket, { request: IncomingMessage; response: ServerResponse }>()
  server.on('request', (request, response) => latest.set(request.socket, { request, response }))
  server.on('connection', (socket: Socket) => {
    const close = socket.destroySoon.bind(socket)
    socket.destroySoon = () => {
      const { request, response } = latest.get(socket) ?? {}
      // At its second call, and of bytes that are no request any more, nothing is waited for.
      socket.destroySoon = close
      if (!request || request.complete || !response?.writableFinished || socket.readableEnded) return close()
      socket.end()
      const late = setTimeout(() => socket.destroy(), LINGER_MS)
      socket.once('close', () => clearTimeout(late))
      request.once('end', close).resume()
    }
  })
}
