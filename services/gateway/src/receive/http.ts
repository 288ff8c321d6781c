/** The HTTP server: who may call, bodies as bytes, routes, and every fault as one JSON shape. */
import { InstarError } from '@instar/events'
import { Readable } from 'node:stream'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { METRICS_TYPE } from '@instar/process'
import type { GatewayConfig } from '../config.ts'
import { ADMIN } from './core/keys.ts'
import { DIALECTS, type Dialect } from '@instar/dialects'
import { allowed, readable } from './core/cors.ts'
import { isListed } from './core/guard.ts'
import { usualPath } from './core/paths.ts'
import type { Headers } from '@instar/agents'
import type { AnswerCall, AnswerReply } from '../generate/completion.ts'
import type { AdminCall } from '../admin/commands.ts'
import type { CompletionCall } from '../generate/text-completion.ts'
import { decoded } from './encoding.ts'
import { isCounted, one, pathOf, type Entrance } from './entrance.ts'
import { faultOf, sayUnheard, sendFault, told, unheard } from './faults.ts'
import type { FeedbackCall } from '../capture/feedback.ts'
import type { ForeignRoute } from '../compat/route.ts'
import { isIterable, jsonLines } from '../admin/json-lines.ts'
import { linger } from './lingering.ts'
import type { Meter } from '../admin/metrics.ts'
import { openApi, type ServedRoute } from './openapi/document.ts'
import type { ResponseVerb } from '../session/responses.ts'
import { traceOf } from './trace.ts'

export type Routes = {
  answer(call: AnswerCall): Promise<AnswerReply>
  complete(call: CompletionCall): Promise<AnswerReply>
  embed(body: Uint8Array, gone: AbortSignal): Promise<unknown>
  countTokens(dialect: Dialect, body: Uint8Array, key: string | null): Promise<{ input_tokens: number }>
  response(
    verb: ResponseVerb,
    asked: { id: string; key: string | null; query: Record<string, unknown> },
  ): Promise<unknown>
  feedback(call: FeedbackCall): Promise<unknown>
  close(call: { label: string; key: string | null }): Promise<unknown>
  /** Paths of other trainers' gateways. */
  foreign: readonly ForeignRoute[]
  models(): unknown
  model(id: string): unknown
  /** Null while everything is in order. */
  unready(): unknown
  ready(): unknown
  status(): unknown
  /** The last requests: what they carried, how they were understood. */
  requests(): unknown
  command(name: string, call: AdminCall): Promise<unknown>
  /** In Prometheus's text format. */
  metrics(): Promise<string>
  meter: Meter
}

const EMPTY = new Uint8Array(0)

/** Of bodies that are no conversation, in bytes. */
const SMALL = { bodyLimit: 64 * 1024 }

const SERVED: readonly Dialect[] = Object.values(DIALECTS)

/** Of a page that may read what is answered; null for any other caller. */
const listedOrigin = ({ headers }: FastifyRequest, config: GatewayConfig): string | null => {
  const origin = headers.origin ?? null
  return origin !== null && isListed(origin, config) ? origin : null
}

/** What can be asked of a response by its id. */
const STORED = [
  ['GET', '', 'get'],
  ['DELETE', '', 'delete'],
  ['GET', '/input_items', 'items'],
  ['POST', '/cancel', 'cancel'],
] as const

/** Faults have the shape of the dialect whose path was asked for; elsewhere OpenAI's; of models both clients ask. */
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
  const server = Fastify({
    bodyLimit: config.bodyLimit,
    requestTimeout: config.requestTimeoutMs,
    // Node looks at intervals; each request has half its time more at most.
    http: {
      requireHostHeader: false,
      headersTimeout: Math.min(config.headersTimeoutMs, config.requestTimeoutMs),
      connectionsCheckingInterval: Math.ceil(Math.min(config.headersTimeoutMs, config.requestTimeoutMs) / 2),
    },
    clientErrorHandler: (error, socket) => {
      const fault = unheard(error, config)
      if (fault) routes.meter.fault(fault)
      sayUnheard(fault, socket)
    },
    frameworkErrors: (error, request, reply) =>
      void failed(error, request, reply.headers({ 'x-request-id': request.id, 'request-id': request.id })),
    genReqId: () => Buffer.from(random(12)).toString('hex'),
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
  linger(server.server)
  const served: ServedRoute[] = []
  server.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat())
      if (one !== 'HEAD' || url === '/api/hello')
        served.push({ method: one, url, scope: routes.foreign.find((route) => route.url === url)?.scope })
  })
  const { check, checkAdmin } = entrance
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))

  /** Faults that went out inside a stream, whose status was 200. */
  const inStream = new WeakMap<FastifyRequest, InstarError>()
  const tell = (fault: InstarError, request: FastifyRequest): void => {
    routes.meter.fault(fault)
    told(fault, request)
  }
  const broken = (fault: InstarError, request: FastifyRequest): void => {
    inStream.set(request, fault)
    tell(fault, request)
  }
  const answered = (request: FastifyRequest, { raw }: FastifyReply, from: number): void => {
    const route = (request.routeOptions.url ?? 'none').replace(/^\/s\/:session|\([^)]*\)/g, '')
    const status = inStream.get(request)?.status ?? (raw.writableFinished ? raw.statusCode : 499)
    routes.meter.ended({
      route,
      dialect: SERVED.find(({ path }) => route.endsWith(`/v1${path}`))?.name ?? null,
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
  // What somebody expects beyond being told to go on is nothing to us.
  server.server.on('checkExpectation', (request, response) => server.server.emit('request', request, response))
  // What a reply waits with; a connection that waits for its next request has another time.
  server.addHook('onSend', (_request, reply, _payload, done) => {
    reply.raw.setTimeout(Math.max(config.stalledMs, 2 * config.pingMs))
    done()
  })
  server.addHook('preParsing', (request, reply, payload, done) => {
    if (!isCounted(request.headers)) return done(null, payload)
    const body = decoded(payload, request.headers['content-encoding'] ?? 'identity', (bytes) =>
      entrance.arrived(request, bytes),
    )
    // What nobody reads any more would hold up the next request of its connection.
    reply.raw.once('finish', () => body.destroy())
    done(null, body)
  })
  // Who has left while the body came would never be seen to close again.
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

  for (const prefix of ['/v1', '/s/:session/v1']) {
    for (const dialect of SERVED)
      server.post(`${prefix}${dialect.path}`, async (request, reply) => {
        const key = check(request, 'inference')
        const whole = await routes.answer({
          dialect,
          body: bytesOf(request),
          headers: request.headers as Headers,
          key: key?.id ?? null,
          mayTrain: key?.scopes.includes('train') ?? true,
          segment: segmentOf(request),
          response: hijackable(reply),
          revoked: entrance.revoked(request),
          onFault: (fault) => broken(fault, request),
        })
        return whole ? reply.headers(whole.headers).send(whole.body) : reply.hijack()
      })
    server.post(`${prefix}/embeddings`, (request, reply) => {
      check(request, 'inference')
      const gone = new AbortController()
      reply.raw.once('close', () => {
        if (!reply.raw.writableFinished) gone.abort()
      })
      return routes.embed(bytesOf(request), gone.signal)
    })
    server.post(`${prefix}/completions`, async (request, reply) => {
      check(request, 'inference')
      const whole = await routes.complete({
        body: bytesOf(request),
        response: hijackable(reply),
        revoked: entrance.revoked(request),
        onFault: (fault) => broken(fault, request),
      })
      return whole ? reply.headers(whole.headers).send(whole.body) : reply.hijack()
    })
    for (const [method, path, verb] of STORED)
      server.route({
        method,
        url: `${prefix}/responses/:id${path}`,
        handler: (request) =>
          routes.response(verb, {
            id: (request.params as { id: string }).id,
            key: check(request, 'inference')?.id ?? null,
            query: request.query as Record<string, unknown>,
          }),
      })
    server.post(`${prefix}/responses/input_tokens`, async (request) => {
      const key = check(request, 'inference')
      return {
        object: 'response.input_tokens',
        ...(await routes.countTokens(DIALECTS.responses, bytesOf(request), key?.id ?? null)),
      }
    })
    server.post(`${prefix}/messages/count_tokens`, (request) => {
      const key = check(request, 'inference')
      return routes.countTokens(DIALECTS.messages, bytesOf(request), key?.id ?? null)
    })
    server.post(`${prefix}/feedback`, SMALL, (request) =>
      routes.feedback({
        body: bytesOf(request),
        key: check(request, 'feedback')?.id ?? null,
        idempotencyKey: one(request.headers['idempotency-key']),
      }),
    )
    server.post(`${prefix}/sessions/:id/close`, SMALL, (request) =>
      routes.close({ label: (request.params as { id: string }).id, key: check(request, 'feedback')?.id ?? null }),
    )
    server.get(`${prefix}/models`, () => routes.models())
    server.get(`${prefix}/models/:id`, (request) => routes.model((request.params as { id: string }).id))
  }
  for (const { method, url, scope, handle } of routes.foreign)
    server.route({
      method,
      url,
      handler: async (request, reply) => {
        const key = check(request, scope)
        const { params, query, headers, host, protocol } = request
        const said = await handle({
          key,
          params: params as Record<string, string>,
          query: query as Record<string, unknown>,
          headers: headers as Headers,
          body: bytesOf(request),
          origin: `${protocol}://${host}`,
          response: () => hijackable(reply),
          revoked: () => entrance.revoked(request),
          onFault: (fault) => broken(fault, request),
        })
        return said ? reply.headers(said.headers).send(said.body) : reply.hijack()
      },
    })
  // Claude Code asks whether somebody is there.
  server.head('/api/hello', (_request, reply) => reply.send())
  server.get('/health/live', () => ({ status: 'live' }))
  server.get('/health/ready', (_request, reply) => {
    const why = routes.unready()
    return why === null ? routes.ready() : reply.status(503).send(why)
  })
  // They name sessions, which are nobody else's to know.
  server.get('/admin/requests', (request) => {
    checkAdmin(request)
    return routes.requests()
  })
  server.get('/admin/status', (request) => {
    check(request, 'admin')
    return routes.status()
  })
  server.get('/metrics', async (request, reply) => {
    check(request, 'admin')
    return reply.type(METRICS_TYPE).send(await routes.metrics())
  })
  let described: unknown = null
  server.get('/openapi.json', () => (described ??= openApi(served)))
  server.post('/admin/:command', SMALL, async (request, reply) => {
    const key = checkAdmin(request)
    const gone = new AbortController()
    reply.raw.once('close', () => {
      if (!reply.raw.writableFinished) gone.abort()
    })
    const answer = routes.command((request.params as { command: string }).command, {
      body: bytesOf(request),
      who: one(request.headers['x-instar-who']),
      key: key === ADMIN ? key.id : `key ${key.id}`,
      gone: gone.signal,
    })
    const result = request.headers.accept?.includes(LINES) ? null : await answer
    if (result !== null && !isIterable(result)) return result
    return reply
      .type(LINES)
      .send(
        Readable.from(
          jsonLines(answer, { beatMs: config.pingMs, gone: gone.signal, onFault: (fault) => tell(fault, request) }),
        ),
      )
  })
  return server
}

/** What a client asks for that wants to know that a long command goes on. */
const LINES = 'application/x-ndjson'

/** Streams write to the raw response; Fastify's own headers go along. */
const hijackable = (reply: FastifyReply): FastifyReply['raw'] => {
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) reply.raw.setHeader(name, value)
  return reply.raw
}

const bytesOf = (request: FastifyRequest): Uint8Array => (request.body instanceof Uint8Array ? request.body : EMPTY)

const segmentOf = (request: FastifyRequest): string | null => (request.params as { session?: string }).session ?? null
