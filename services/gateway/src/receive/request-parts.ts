/** What handlers read of a request, and the raw response that a stream writes to. */
import type { FastifyReply, FastifyRequest } from 'fastify'

/** Body limit of routes whose bodies are no conversations, in bytes. */
export const SMALL_BODY = { bodyLimit: 64 * 1024 }

const EMPTY = new Uint8Array(0)

/** Streams write to the raw response; Fastify's own headers go along. */
export const hijackable = (reply: FastifyReply): FastifyReply['raw'] => {
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) reply.raw.setHeader(name, value)
  return reply.raw
}

export const bytesOf = (request: FastifyRequest): Uint8Array =>
  request.body instanceof Uint8Array ? request.body : EMPTY

export const segmentOf = (request: FastifyRequest): string | null =>
  (request.params as { session?: string }).session ?? null

/** Aborted when the client leaves before the reply is complete. */
export const goneSignal = (reply: FastifyReply): AbortSignal => {
  const gone = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort()
  })
  return gone.signal
}
