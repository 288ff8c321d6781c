/**
 * The routes of agents: each dialect's own and what clients request besides. All of them exist under /s/{session}/v1,
 * too.
 */
import type { Headers } from '@instar/agents'
import { DIALECTS, type Dialect } from '@instar/dialects'
import type { InstarError } from '@instar/events'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { CompatRoute } from '../compat/route.ts'
import { one, type Entrance } from './entrance.ts'
import type { Reader } from '../session/earlier-body.ts'
import type { Routes } from './routes.ts'
import { bytesOf, goneSignal, hijackable, segmentOf, SMALL_BODY } from './request-parts.ts'

export const SERVED: readonly Dialect[] = Object.values(DIALECTS)

/** Requests about a stored response, by its id. */
const STORED = [
  ['GET', '', 'get'],
  ['DELETE', '', 'delete'],
  ['GET', '/input_items', 'items'],
  ['POST', '/cancel', 'cancel'],
] as const

type StreamFault = (fault: InstarError, request: FastifyRequest) => void

export const addInferenceRoutes = (
  server: FastifyInstance,
  routes: Routes,
  entrance: Entrance,
  onStreamFault: StreamFault,
): void => {
  const { check } = entrance
  const readerOf = (request: FastifyRequest, reply: FastifyReply): Reader => ({
    key: check(request, 'inference')?.id ?? null,
    hold: entrance.holdOf(request),
    gone: goneSignal(reply),
  })
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
          response: reply.raw,
          beforeStream: () => void hijackable(reply),
          revoked: entrance.revoked(request),
          onFault: (fault) => onStreamFault(fault, request),
          hold: entrance.holdOf(request),
        })
        return whole ? reply.headers(whole.headers).send(whole.body) : reply.hijack()
      })
    server.post(`${prefix}/embeddings`, async (request, reply) => {
      check(request, 'inference')
      const json = await routes.embed({
        body: bytesOf(request),
        response: reply.raw,
        revoked: entrance.revoked(request),
        hold: entrance.holdOf(request),
      })
      return reply.type('application/json; charset=utf-8').send(json)
    })
    server.post(`${prefix}/completions`, async (request, reply) => {
      check(request, 'inference')
      const whole = await routes.complete({
        body: bytesOf(request),
        response: hijackable(reply),
        revoked: entrance.revoked(request),
        onFault: (fault) => onStreamFault(fault, request),
        hold: entrance.holdOf(request),
      })
      return whole ? reply.headers(whole.headers).send(whole.body) : reply.hijack()
    })
    for (const [method, path, verb] of STORED)
      server.route({
        method,
        url: `${prefix}/responses/:id${path}`,
        handler: (request, reply) =>
          routes.response(verb, {
            id: (request.params as { id: string }).id,
            ...readerOf(request, reply),
            query: request.query as Record<string, unknown>,
          }),
      })
    server.post(`${prefix}/responses/input_tokens`, async (request, reply) => {
      return {
        object: 'response.input_tokens',
        ...(await routes.countTokens(DIALECTS.responses, bytesOf(request), readerOf(request, reply))),
      }
    })
    server.post(`${prefix}/messages/count_tokens`, (request, reply) =>
      routes.countTokens(DIALECTS.messages, bytesOf(request), readerOf(request, reply)),
    )
    server.post(`${prefix}/feedback`, SMALL_BODY, (request) =>
      routes.feedback({
        body: bytesOf(request),
        key: check(request, 'feedback')?.id ?? null,
        idempotencyKey: one(request.headers['idempotency-key']),
      }),
    )
    server.post(`${prefix}/sessions/:id/close`, SMALL_BODY, (request) =>
      routes.close({
        label: (request.params as { id: string }).id,
        key: check(request, 'feedback')?.id ?? null,
        body: bytesOf(request),
      }),
    )
    server.get(`${prefix}/models`, () => routes.models())
    server.get(`${prefix}/models/:id`, (request) => routes.model((request.params as { id: string }).id))
  }
}

/** Routes of other trainers' gateways. */
export const addCompatRoutes = (
  server: FastifyInstance,
  compat: readonly CompatRoute[],
  entrance: Entrance,
  onStreamFault: StreamFault,
): void => {
  for (const { method, url, scope, handle } of compat)
    server.route({
      method,
      url,
      handler: async (request, reply) => {
        const key = entrance.check(request, scope)
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
          onFault: (fault) => onStreamFault(fault, request),
          hold: entrance.holdOf(request),
        })
        return said ? reply.headers(said.headers).send(said.body) : reply.hijack()
      },
    })
}
