/**
 * The routes whose answers have what people and models wrote. Each needs the scope `read`, or what stands in its place
 * (visitor.ts).
 */
import { InstarError } from '@instar/events'
import { parseJson } from '@instar/dialects'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Readable } from 'node:stream'
import { z } from 'zod'
import type { Entrance } from '../receive/entrance.ts'
import { bytesOf, goneSignal, hijackable, SMALL_BODY } from '../receive/request-parts.ts'
import { Exports, readAsTaken } from './exports.ts'
import { turnLearned } from './learned.ts'
import type { DashboardPorts } from './ports.ts'
import { idOf, named, older, parsedBy, searched } from './query.ts'
import { sample, sampleBody } from './sample.ts'
import { beginnings, exportedSession, newestPrompts, searchTexts } from './texts.ts'
import { turnLogprobs, turnText, turnTokens, type Charged } from './turn-view.ts'
import type { Reading } from './visitor.ts'

export type Get = (
  path: string,
  handler: (request: FastifyRequest, reading: Reading, reply: FastifyReply) => unknown,
) => void

export const addTextRoutes = (server: FastifyInstance, get: Get, ports: DashboardPorts, entrance: Entrance): void => {
  /** Throws `missing_scope` unless the caller may read what people wrote. */
  const textFor = (reading: Reading): void => {
    if (!reading.text)
      throw new InstarError(
        'missing_scope',
        'Texts need an API key with the scope read, or a session of `instar open`.',
        {
          scope: 'read',
        },
      )
  }

  const exports = new Exports()
  /** The caller's share of the places in which large texts are read, and the memory of its request. */
  const charged = (request: FastifyRequest, gone: AbortSignal): Charged => {
    const { who } = entrance.visitOf(request)
    return {
      who,
      read: (work) => ports.readings.run({ group: 'dashboard', who }, gone, work),
      hold: entrance.holdOf(request),
    }
  }
  const texts = (request: FastifyRequest, gone: AbortSignal) => {
    const text = ports.text()
    return { index: text.index, text, read: charged(request, gone).read, monotonic: ports.monotonic }
  }

  get('turns/:id/text', (request, reading, reply) => {
    textFor(reading)
    const own = charged(request, goneSignal(reply))
    return own.read(() => turnText(ports.text(), idOf(request), own))
  })
  get('turns/:id/tokens', (request, reading, reply) => {
    textFor(reading)
    const own = charged(request, goneSignal(reply))
    return own.read(() => turnTokens(ports.text(), idOf(request), own))
  })
  get('turns/:id/logprobs', (request, reading, reply) => {
    textFor(reading)
    const { version } = parsedBy(z.object({ version: z.coerce.number().int().min(0).max(1e9) }), request.query)
    const gone = goneSignal(reply)
    return turnLogprobs(ports.text(), idOf(request), version, gone, charged(request, gone))
  })
  get('turns/:id/learned', async (request, reading, reply) => {
    textFor(reading)
    if (!ports.readModel)
      throw new InstarError('not_available', 'This gateway has no database to read from (DATABASE_URL).')
    const id = idOf(request)
    const gone = goneSignal(reply)
    return turnLearned(ports.text(), await ports.readModel.learnedFrom(id), id, gone, charged(request, gone))
  })
  get('search', (request, reading, reply) => {
    textFor(reading)
    const query = parsedBy(searched, request.query)
    const from = query.after === undefined ? null : { at: query.at ?? 0, id: query.after }
    return searchTexts(texts(request, goneSignal(reply)), query.text, from)
  })
  get('beginnings', (request, reading, reply) => {
    textFor(reading)
    return beginnings(texts(request, goneSignal(reply)), parsedBy(named, request.query).session)
  })
  get('prompts', (request, reading, reply) => {
    textFor(reading)
    const { at, after } = parsedBy(older, request.query)
    return newestPrompts(texts(request, goneSignal(reply)), after === undefined ? null : { at: at ?? 0, id: after })
  })
  get('sessions/:id/export', async (request, reading, reply) => {
    textFor(reading)
    const id = idOf(request)
    const { socket } = request.raw
    const gone = goneSignal(reply)
    const end = exports.begin(entrance.visitOf(request).who)
    // The response to a pipelined request that waits for its turn does not close with its connection.
    socket.once('close', end)
    reply.raw.once('close', () => {
      socket.off('close', end)
      end()
    })
    const lines = await exportedSession(texts(request, gone), id)
    const name = `${id.replace(/[^\w.-]/g, '_').slice(0, 100)}.jsonl`
    return reply
      .headers({ 'content-type': 'application/x-ndjson', 'content-disposition': `attachment; filename="${name}"` })
      .send(Readable.from(readAsTaken(lines, reply.raw, gone, entrance.holdOf(request))))
  })
  server.post('/v1/dashboard/sample', SMALL_BODY, async (request, reply) => {
    textFor(entrance.checkReading(request))
    entrance.check(request, 'inference')
    const asked = parsedBy(sampleBody, parseJson(bytesOf(request)))
    const hold = entrance.holdOf(request)
    await sample(ports.sample, { response: hijackable(reply), revoked: entrance.revoked(request), hold }, asked)
    return reply.hijack()
  })
}
