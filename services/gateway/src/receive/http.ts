/** The HTTP server: access checks, bodies as bytes, and errors in one JSON shape. */
import { InstarError } from '@instar/events'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest, type RequestPayload } from 'fastify'
import type { GatewayConfig } from '../config.ts'
import { DIALECTS, type Dialect } from '@instar/dialects'
import { allowed, readable } from './core/cors.ts'
import { isListed } from './core/guard.ts'
import { usualPath } from './core/paths.ts'
import { decoded, windowOf } from './encoding.ts'
import { hex } from '../generate/random.ts'
import { readBody } from './body.ts'
import { one, pathOf, type Entrance } from './entrance.ts'
import { faultOf, sendMalformed, sendFault, logFault, malformedRequest } from './faults.ts'
import { Connections } from './connections.ts'
import { createListener } from './listener.ts'
import { addCompatRoutes, addInferenceRoutes, SERVED } from './inference-routes.ts'
import type { ServedRoute } from './openapi/document.ts'
import { addOperatorRoutes } from './operator-routes.ts'
import { bytesOf, isCounted } from './request-parts.ts'
import type { Ended } from '../admin/metrics.ts'
import type { Routes } from './routes.ts'
import { traceOf } from './trace.ts'

/** The origin of a listed page, or null for any other caller. */
const listedOrigin = ({ headers }: FastifyRequest, config: GatewayConfig): string | null => {
  const origin = headers.origin ?? null
  return origin !== null && isListed(origin, config) ? origin : null
}

/** Errors have the shape of the requested path's dialect, elsewhere OpenAI's. Clients of both APIs request models. */
const dialectAt = (request: FastifyRequest): Dialect =>
  SERVED.find(({ path }) => pathOf(request).includes(`/v1${path}`)) ??
  (request.headers['anthropic-version'] !== undefined && pathOf(request).includes('/v1/models')
    ? DIALECTS.messages
    : DIALECTS.chat)

export const createServer = (
  config: GatewayConfig,
  entrance: Entrance,
  routes: Routes,
  random: (bytes: number) => Uint8Array,
): FastifyInstance => {
  const connections = new Connections(config.maxConnections)
  routes.meter.connections(connections)
  const server = Fastify({
    bodyLimit: config.bodyLimit,
    serverFactory: (handler) => createListener(handler, connections, config),
    clientErrorHandler: (error, socket) => {
      const fault = malformedRequest(error, config)
      if (fault) routes.meter.fault(fault)
      sendMalformed(fault, socket)
    },
    frameworkErrors: (error, request, reply) =>
      void failed(error, request, reply.headers({ 'x-request-id': request.id, 'request-id': request.id })),
    genReqId: () => hex(random(12)),
    // Lines name the request themselves (faults.ts): a logger for each request costs as much as its route.
    childLoggerFactory: (logger) => logger,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: 512 },
    rewriteUrl: ({ url = '/' }) => usualPath(url),
    logger:
      config.logLevel === 'silent'
        ? false
        : {
            level: config.logLevel,
            stream: process.stderr,
            serializers: { err: (error) => ({ type: error.name, message: '', stack: '', trace: traceOf(error) }) },
          },
  })
  const served: ServedRoute[] = []
  server.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat())
      if (one !== 'HEAD' || url === '/api/hello')
        served.push({ method: one, url, scope: routes.compat.find((route) => route.url === url)?.scope })
  })
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('*', (request: FastifyRequest, payload: RequestPayload) =>
    readBody(
      payload,
      {
        contentLength: Number(request.headers['content-length']),
        encoded: isCounted(request.headers),
        limit: request.routeOptions.bodyLimit,
        window: windowOf(request.headers['content-encoding'] ?? 'identity'),
      },
      entrance.holding(request),
    ),
  )

  /** By the URL of a route, of which there are some hundred. */
  const named = new Map<string, Pick<Ended, 'route' | 'dialect'>>()
  const namedRoute = (url: string): Pick<Ended, 'route' | 'dialect'> => {
    const known = named.get(url)
    if (known) return known
    const route = url.replace(/^\/s\/:session|\([^)]*\)/g, '')
    const dialect = SERVED.find(({ path }) => route.endsWith(`/v1${path}`))?.name ?? null
    named.set(url, { route, dialect })
    return { route, dialect }
  }
  /** Errors sent inside a stream, whose status was 200. */
  const inStream = new WeakMap<FastifyRequest, InstarError>()
  const tell = (fault: InstarError, request: FastifyRequest): void => {
    routes.meter.fault(fault)
    logFault(fault, request)
  }
  const broken = (fault: InstarError, request: FastifyRequest): void => {
    inStream.set(request, fault)
    tell(fault, request)
  }
  const answered = (request: FastifyRequest, { raw }: FastifyReply, from: number): void => {
    const status = inStream.get(request)?.status ?? (raw.writableFinished ? raw.statusCode : 499)
    routes.meter.ended({
      ...namedRoute(request.routeOptions.url ?? 'none'),
      status,
      seconds: (performance.now() - from) / 1000,
    })
  }

  server.addHook('onRequest', (request, reply, done) => {
    const from = performance.now()
    reply.raw.once('close', () => answered(request, reply, from))
    reply.headers({ 'x-request-id': request.id, 'request-id': request.id })
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1')
      throw new InstarError('bad_request', 'The request has no Host header.', { field: 'host' })
    const origin = listedOrigin(request, config)
    if (origin !== null && request.method === 'OPTIONS') {
      const { 'access-control-request-headers': headers, 'access-control-request-private-network': network } =
        request.headers
      return void reply
        .status(204)
        .headers(allowed(origin, { headers: one(headers), privateNetwork: network === 'true' }))
        .send()
    }
    if (origin !== null) reply.headers(readable(origin))
    try {
      entrance.admit(request, reply)
    } finally {
      const standing = entrance.standing(request)
      if (standing) reply.headers(dialectAt(request).rateHeaders(standing))
    }
    done()
  })
  // The timeout while a response is sent; an idle connection has its own.
  server.addHook('onSend', (_request, reply, _payload, done) => {
    reply.raw.setTimeout(Math.max(config.stalledMs, 2 * config.pingMs))
    done()
  })
  server.addHook('preParsing', (request, reply, payload, done) => {
    if (!isCounted(request.headers)) return done(null, payload)
    // Nobody reads it: it counts for the key's rate, and takes no memory.
    if (request.method === 'GET' || request.method === 'HEAD')
      return done(
        null,
        payload.on('data', (piece: Buffer) => entrance.arrived(request, piece.length)),
      )
    const body = decoded(payload, request.headers['content-encoding'] ?? 'identity', (bytes) =>
      entrance.arrived(request, bytes),
    )
    // An unread body would block the next request on the connection.
    reply.raw.once('finish', () => body.destroy())
    done(null, body)
  })
  // `close` was emitted before this hook if the client disconnected while its body was read.
  server.addHook('preHandler', (request, reply, done) => {
    if (reply.raw.destroyed) return done(new InstarError('aborted', 'The client closed the connection.'))
    entrance.parsing(request, bytesOf(request))
    done()
  })
  server.setNotFoundHandler((request) => {
    throw new InstarError('unknown_route', `There is no ${request.method} ${pathOf(request)}.`)
  })
  const failed = (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const fault = faultOf(error, { bodyLimit: request.routeOptions.bodyLimit })
    tell(fault, request)
    return sendFault(fault, request, reply, dialectAt(request))
  }
  server.setErrorHandler(failed)

  addInferenceRoutes(server, routes, entrance, broken)
  addCompatRoutes(server, routes.compat, entrance, broken)
  addOperatorRoutes(server, routes, entrance, { pingMs: config.pingMs, served, onFault: tell })
  return server
}
