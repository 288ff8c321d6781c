/**
 * The dashboard: its files, its data under `/v1/dashboard`, and the sessions of browsers. Everything that changes
 * something is an admin command or an ordinary request of the API.
 */
import { ERRORS, InstarError } from '@instar/events'
import { parseJson } from '@instar/dialects'
import type { ReadModel, SessionFilter } from '@instar/projections/read-model'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Readable } from 'node:stream'
import { z } from 'zod'
import { checkSameOrigin } from '../receive/core/guard.ts'
import { one, type Entrance } from '../receive/entrance.ts'
import { bytesOf, goneSignal, hijackable, SMALL_BODY, TINY_BODY } from '../receive/request-parts.ts'
import { addAssets } from './assets.ts'
import { csrfOf, LINK_MS, Links, SESSION_MS, setCookie, signed } from './visit.ts'
import { Live } from './live.ts'
import type { DashboardPorts } from './ports.ts'
import { turnLogprobs, turnText, turnTokens } from './turn-view.ts'
import { exportedSession, searchTexts } from './texts.ts'
import type { Reading } from './visitor.ts'

type DashboardSettings = { entrance: Entrance; pingMs: number; stalledMs: number }

/** Time between two readings for open pages, in milliseconds. */
const LIVE_MS = 1_000

/** Updates, moves of the head and freezes that `lately` has of each. */
const LATEST = 20

/** PostgreSQL has no texts with NUL. */
const short = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\0]*$/)
const filter = z.strictObject({
  subject: short.optional(),
  key: short.optional(),
  version: z.coerce.number().int().min(-1).max(1e9).optional(),
  dialect: short.optional(),
  source: short.optional(),
  reward: z.enum(['positive', 'negative', 'none']).optional(),
  reason: short.optional(),
  id: short.optional(),
})
const searched = z.strictObject({
  text: short,
  at: z.coerce.number().int().min(0).max(1e15).optional(),
  after: short.optional(),
})
const cursor = z.object({ at: z.iso.datetime().regex(/^(?!0000)/), after: short })

/** Where a page begins, from `at` and `after` of the query. Throws `bad_request`. */
const cursorOf = ({ at, after }: Record<string, unknown>): { at: string; id: string } | null => {
  if (at === undefined && after === undefined) return null
  const parsed = parsedBy(cursor, { at, after })
  return { at: parsed.at, id: parsed.after }
}

const parsedBy = <T extends z.ZodType>(schema: T, value: unknown): z.output<T> => {
  const { data, error } = schema.safeParse(value)
  if (!error) return data
  const [issue] = error.issues
  const field = String(issue?.path[0] ?? '')
  throw new InstarError('bad_request', `${field || 'The query'}: ${issue?.message ?? 'is not valid'}`, { field })
}

const paramsOf = (request: FastifyRequest): Record<string, string> => request.params as Record<string, string>

const idParam = z.object({ id: z.string().regex(/^[^\0]*$/) })
const idOf = (request: FastifyRequest): string => parsedBy(idParam, paramsOf(request)).id

export const addDashboard = (
  server: FastifyInstance,
  ports: DashboardPorts,
  { entrance, pingMs, stalledMs }: DashboardSettings,
): { stop(): void } => {
  const links = new Links()
  const live = new Live({ read: ports.status, everyMs: LIVE_MS, pingMs, stalledMs })
  addAssets(server)

  /** Throws `not_available`. */
  const data = (): ReadModel => {
    if (ports.readModel) return ports.readModel
    throw new InstarError('not_available', 'This gateway has no database to read from (DATABASE_URL).')
  }
  const found = <T>(row: T | null, what: 'session' | 'turn' | 'version'): T => {
    if (row === null)
      throw new InstarError(
        what === 'version' ? 'unknown_version' : 'unknown_turn',
        `There is no such ${what} in the read model.`,
      )
    return row
  }
  const get = (
    path: string,
    handler: (request: FastifyRequest, reading: Reading, reply: FastifyReply) => unknown,
  ): void => {
    server.get(`/v1/dashboard/${path}`, (request, reply) => {
      const reading = entrance.checkReading(request)
      void reply.header('cache-control', 'no-store')
      return handler(request, reading, reply)
    })
  }
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

  const texts = () => {
    const text = ports.text()
    return { index: text.index, text, readings: ports.readings, monotonic: ports.monotonic }
  }

  get('now', () => ports.status())
  get('health', () => ports.checks())
  get('errors', () => ERRORS)
  get('versions', async () => ({ versions: await data().versions(), ...(await data().lineage()) }))
  get('versions/:version', async (request) => {
    const version = Number(paramsOf(request)['version'])
    return {
      version: found(await data().version(version), 'version'),
      limits: ports.limits(version),
      turns: await data().batch(version),
    }
  })
  get('lately', async () => {
    const { updates, moves, freezes } = await data().lineage()
    const latest = <T>(rows: readonly T[]): T[] => rows.slice(0, LATEST)
    return { updates: latest(updates), moves: latest(moves), freezes: latest(freezes) }
  })
  get('learning', async () => ({
    versions: await data().versions(),
    ...(await data().lineage()),
    ...(await data().learning()),
  }))
  get('sessions', (request) => {
    const { at, after, ...rest } = request.query as Record<string, unknown>
    return data().sessions(parsedBy(filter, rest) as SessionFilter, cursorOf({ at, after }))
  })
  get('sessions/:id', async (request) => {
    const id = idOf(request)
    const session = found(await data().session(id), 'session')
    return { session, turns: await data().sessionTurns(id, cursorOf(request.query as Record<string, unknown>)) }
  })
  get('turns/:id', async (request) => {
    const turn = found(await data().turn(idOf(request)), 'turn')
    return { turn, group: await data().group(String(turn['session_id']), String(turn['group_id'])) }
  })
  get('turns/:id/text', (request, reading, reply) => {
    textFor(reading)
    return ports.readings.run('dashboard', goneSignal(reply), () => turnText(ports.text(), idOf(request)))
  })
  get('turns/:id/tokens', (request, reading, reply) => {
    textFor(reading)
    return ports.readings.run('dashboard', goneSignal(reply), () => turnTokens(ports.text(), idOf(request)))
  })
  get('turns/:id/logprobs', (request, reading, reply) => {
    textFor(reading)
    const { version } = parsedBy(z.object({ version: z.coerce.number().int().min(0).max(1e9) }), request.query)
    return turnLogprobs(ports.text(), idOf(request), version, goneSignal(reply))
  })
  get('search', (request, reading, reply) => {
    textFor(reading)
    const query = parsedBy(searched, request.query)
    const from = query.after === undefined ? null : { at: query.at ?? 0, id: query.after }
    return searchTexts(texts(), query.text, from, goneSignal(reply))
  })
  get('sessions/:id/export', (request, reading, reply) => {
    textFor(reading)
    const id = idOf(request)
    const lines = exportedSession(texts(), id, goneSignal(reply))
    const name = `${id.replace(/[^\w.-]/g, '_').slice(0, 100)}.jsonl`
    return reply
      .headers({ 'content-type': 'application/x-ndjson', 'content-disposition': `attachment; filename="${name}"` })
      .send(Readable.from(lines))
  })
  get('events', (request, _reading, reply) => {
    // No body would ever end the reply to a HEAD request.
    if (request.method === 'HEAD') return reply.header('content-type', 'text/event-stream').send()
    const { who } = entrance.visitOf(request)
    live.checkRoom(who)
    live.open(hijackable(reply), {}, who)
    return reply.hijack()
  })

  server.get('/v1/dashboard/session', (request, reply) => {
    const { cookie, reading } = entrance.visitOf(request)
    return reply.header('cache-control', 'no-store').send({
      signed_in: cookie !== null,
      may: reading,
      database: ports.readModel !== null,
    })
  })
  /** Begins a session: with the code of a one-time link, or with an API key in `Authorization`. Only this answer has its token. */
  server.post('/v1/dashboard/session', TINY_BODY, (request, reply) => {
    checkSameOrigin(
      {
        host: request.headers.host,
        origin: one(request.headers.origin) ?? undefined,
        site: one(request.headers['sec-fetch-site']) ?? undefined,
      },
      true,
    )
    const body = bytesOf(request)
    const { code } =
      body.length === 0 ? { code: undefined } : parsedBy(z.object({ code: short.optional() }), parseJson(body))
    const holder =
      code === undefined ? entrance.holderOf(request) : links.use(code, ports.now()) ? entrance.adminHolder : null
    if (holder === null)
      throw new InstarError('invalid_api_key', 'The link has expired or was used; `instar open` makes another.')
    const cookie = signed(entrance.cookieSecret, holder, ports.now() + SESSION_MS)
    return reply
      .headers({
        'cache-control': 'no-store',
        // TLS ends in front of the gateway, so the page's own address tells.
        'set-cookie': setCookie(cookie, SESSION_MS / 1000, one(request.headers.origin)?.startsWith('https:') ?? false),
      })
      .send({ csrf: csrfOf(entrance.cookieSecret, cookie) })
  })
  server.delete('/v1/dashboard/session', TINY_BODY, (request, reply) => {
    entrance.endVisit(request)
    return reply.header('set-cookie', setCookie('', 0, false)).send({ signed_in: false })
  })
  server.post('/admin/dashboard-link', SMALL_BODY, (request) => {
    entrance.checkAdmin(request)
    const code = Buffer.from(ports.random(32)).toString('base64url')
    links.add(code, ports.now())
    return { path: `/#code=${code}`, expires_in: LINK_MS / 1000 }
  })
  return { stop: () => live.stop() }
}
