/** Accessors for the parts of a request, and the raw response for streams. */
import { InstarError } from '@instar/events'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { createOnceOver } from './running-callers.ts'

/** Body limit in bytes for routes that take no conversations. */
export const SMALL_BODY = { bodyLimit: 64 * 1024 }
/** Of the routes that need no key: less than a connection takes anyway. */
export const TINY_BODY = { bodyLimit: 1024 }

const EMPTY = new Uint8Array(0)

/** Copies Fastify's headers to the raw response, which streams write to. */
export const hijackable = (reply: FastifyReply): FastifyReply['raw'] => {
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) reply.raw.setHeader(name, value)
  return reply.raw
}

export const bytesOf = (request: FastifyRequest): Uint8Array =>
  request.body instanceof Uint8Array ? request.body : EMPTY

export const segmentOf = (request: FastifyRequest): string | null =>
  (request.params as { session?: string }).session ?? null

const onceOver = createOnceOver()

/**
 * Aborted, with the error `aborted`, when the client disconnects before the response is complete, also while the response
 * waits for those of earlier requests of its connection.
 */
export const goneSignal = (reply: FastifyReply): AbortSignal => {
  const gone = new AbortController()
  const over = (): void => {
    if (!reply.raw.writableFinished) gone.abort(new InstarError('aborted', 'The client closed the connection.'))
  }
  if (reply.request.raw.socket.destroyed) over()
  else onceOver(reply.request, reply, over)
  return gone.signal
}

/** The declared length of an unencoded body; null if its size is not known in advance. */
export const lengthOf = ({ headers }: FastifyRequest): number | null => {
  const length = headers['content-length']
  return isCounted(headers) || length === undefined ? null : Number(length)
}

/** Whether the bytes of the body are counted as they arrive. */
export const isCounted = (headers: FastifyRequest['headers']): boolean =>
  headers['transfer-encoding'] !== undefined || (headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity'
