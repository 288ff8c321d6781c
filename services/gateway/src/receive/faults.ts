/** Converts every error to one JSON shape: errors of routes, of Fastify, and of malformed requests. */
import { InstarError } from '@instar/events'
import { asInstarError, chatError, type Dialect } from '@instar/dialects'
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { GatewayConfig } from '../config.ts'
import { traceOf } from './trace.ts'

/** Fastify's own errors with a status of 400 to 499 are `bad_request`, other unknown errors `internal`. */
export const faultOf = (error: unknown, { bodyLimit }: Pick<GatewayConfig, 'bodyLimit'>): InstarError => {
  const { code, statusCode } = error as { code?: unknown; statusCode?: unknown }
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE')
    return new InstarError('body_too_large', `The request body is larger than ${bodyLimit} bytes.`, {
      limit: bodyLimit,
    })
  if (code === 'FST_ERR_BAD_URL' || code === 'FST_ERR_MAX_PARAM_LENGTH')
    return new InstarError(
      'bad_request',
      code === 'FST_ERR_BAD_URL' ? 'The path is not well encoded.' : 'A part of the path is too long.',
      { field: 'path' },
    )
  if (!(error instanceof InstarError) && typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500)
    return new InstarError('bad_request', error instanceof Error ? error.message : 'The request cannot be read.')
  return asInstarError(error)
}

/** The error for a malformed or incomplete request; null if the connection is closed. */
export const malformedRequest = (
  { code }: { code?: string },
  { requestTimeoutMs }: Pick<GatewayConfig, 'requestTimeoutMs'>,
): InstarError | null => {
  if (code === 'ECONNRESET' || code === 'EPIPE') return null
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new InstarError('request_timeout', `The request did not arrive within ${requestTimeoutMs / 1000} s.`, {
      limitMs: requestTimeoutMs,
    })
  return new InstarError(
    'bad_request',
    code === 'HPE_HEADER_OVERFLOW' ? 'The headers are too long.' : 'This is no HTTP request.',
  )
}

/** Without a parsed request there is no dialect, so the error has OpenAI's shape. */
export const sendMalformed = (fault: InstarError | null, socket: Socket): void => {
  if (fault && socket.writable) {
    const body = JSON.stringify(chatError(fault))
    socket.write(
      `HTTP/1.1 ${fault.status} ${STATUS_CODES[fault.status]}\r\nconnection: close\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
  }
  socket.destroySoon()
}

/** Logs an error: code and stack frames, no user text. Errors that are expected to be temporary are warnings. */
export const logFault = (fault: InstarError, request: FastifyRequest): void => {
  if (fault.status < 500) return
  const said = {
    code: fault.code,
    requestId: request.id,
    trace: fault.code === 'internal' ? traceOf(fault.cause ?? fault) : undefined,
  }
  if (fault.retryable && fault.code !== 'internal') request.log.warn(said, 'request failed')
  else request.log.error(said, 'request failed')
}

export const sendFault = (
  fault: InstarError,
  request: FastifyRequest,
  reply: FastifyReply,
  dialect: Dialect,
): FastifyReply => {
  if (fault.retryable && (fault.status === 503 || fault.status === 429)) {
    const wait = typeof fault.details['retryAfterMs'] === 'number' ? fault.details['retryAfterMs'] : 1000
    void reply.headers({ 'retry-after': String(Math.ceil(wait / 1000)), 'retry-after-ms': String(wait) })
  }
  // Clients must not repeat a request that would fail again, or that was retried already.
  if ((!fault.retryable && fault.status >= 500) || fault.details['triesSpent'] === true)
    void reply.header('x-should-retry', 'false')
  return reply.status(fault.status).type('application/json; charset=utf-8').send(dialect.error(fault, request.id))
}
