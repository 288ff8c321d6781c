/** The routes of operators: health, metrics, the OpenAPI document, admin commands. */
import { InstarError } from '@instar/events'
import { METRICS_TYPE } from '@instar/process'
import { NONCE_FORM, PROOF_PATH } from '@instar/process/admin-proof'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Readable } from 'node:stream'
import { isIterable, jsonLines } from '../admin/json-lines.ts'
import { ADMIN } from './core/keys.ts'
import { one, type Entrance } from './entrance.ts'
import { openApi, type ServedRoute } from './openapi/document.ts'
import type { Routes } from './routes.ts'
import { bytesOf, goneSignal, SMALL_BODY } from './request-parts.ts'

/** Media type that requests progress lines and heartbeats of a long command. */
const LINES = 'application/x-ndjson'

/** `served`: filled before the first request. */
type OperatorOptions = {
  pingMs: number
  served: readonly ServedRoute[]
  onFault: (fault: InstarError, request: FastifyRequest) => void
}

export const addOperatorRoutes = (
  server: FastifyInstance,
  routes: Routes,
  { check, checkAdmin, revoked, holdOf }: Entrance,
  { pingMs, served, onFault }: OperatorOptions,
): void => {
  // Claude Code sends this request to check that the server is up.
  server.head('/api/hello', (_request, reply) => reply.send())
  server.get('/health/live', () => ({ status: 'live' }))
  server.get('/health/ready', (_request, reply) => {
    const why = routes.unready()
    return why === null ? routes.ready() : reply.status(503).send(why)
  })
  // Costs no more than the two above, and is not limited by itself: others could then keep the operator's commands out.
  server.get(PROOF_PATH, (request, reply) => {
    const { nonce } = request.query as { nonce?: unknown }
    if (typeof nonce !== 'string' || !NONCE_FORM.test(nonce))
      throw new InstarError('bad_request', 'nonce: must be 32 bytes in base64url.', { field: 'nonce' })
    const { localAddress: address, localPort: port } = request.raw.socket
    if (address === undefined || port === undefined)
      throw new InstarError('aborted', 'The client closed the connection.')
    void reply.header('cache-control', 'no-store')
    return { proof: routes.prove(Buffer.from(nonce, 'base64url'), { address, port }).toString('base64url') }
  })
  // The list names sessions, which other callers must not see.
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
  // Bytes, which all responses that wait for their readers share.
  let described: Buffer | null = null
  server.get('/openapi.json', (_request, reply) =>
    reply.type('application/json; charset=utf-8').send((described ??= Buffer.from(JSON.stringify(openApi(served))))),
  )
  // The base URL of an OpenAI-compatible judge is `/admin/judge`.
  server.post('/admin/judge/chat/completions', (request, reply) => {
    checkAdmin(request)
    return routes.judge({
      body: bytesOf(request),
      response: reply.raw,
      revoked: revoked(request),
      hold: holdOf(request),
    })
  })
  server.post('/admin/:command', SMALL_BODY, async (request, reply) => {
    const key = checkAdmin(request)
    const gone = goneSignal(reply)
    const answer = routes.command((request.params as { command: string }).command, {
      body: bytesOf(request),
      who: one(request.headers['x-instar-who']),
      key: key === ADMIN ? key.id : `key ${key.id}`,
      gone,
    })
    const result = request.headers.accept?.includes(LINES) ? null : await answer
    if (result !== null && !isIterable(result)) return result
    return reply
      .type(LINES)
      .send(
        Readable.from(jsonLines(answer, { heartbeatMs: pingMs, gone, onFault: (fault) => onFault(fault, request) })),
      )
  })
}
