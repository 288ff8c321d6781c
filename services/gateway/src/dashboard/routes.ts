/**
 * The dashboard: its files, its data under `/v1/dashboard`, and the sessions of browsers. Everything that changes
 * something is an admin command or an ordinary request of the API.
 */
import { ERRORS, InstarError } from '@instar/events'
import { parseJson } from '@instar/dialects'
import type { ReadModel, SessionFilter } from '@instar/projections/read-model'
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { GatewayConfig } from '../config.ts'
import { checkSameOrigin } from '../receive/core/guard.ts'
import { one, type Entrance } from '../receive/entrance.ts'
import { bytesOf, goneSignal, hijackable, SMALL_BODY, TINY_BODY } from '../receive/request-parts.ts'
import { KEY_NAME } from '../receive/key-file.ts'
import type { Keyring } from '../receive/keyring.ts'
import { createAgentKey } from './agent-key.ts'
import { addAssets } from './assets.ts'
import { csrfOf, keyOfCookie, LINK_MS, Links, SESSION_MS, setCookie, signed } from './visit.ts'
import { KeptAnswer } from './kept-answer.ts'
import { callersOf, callersQuery, learningOf, learningParts } from './learning.ts'
import { Live } from './live.ts'
import type { DashboardPorts } from './ports.ts'
import { batchQuery, cursorOf, filter, idOf, numberOf, parsedBy, short, versionsQuery } from './query.ts'
import { rowsFor } from './row-texts.ts'
import { addTextRoutes, type Get } from './text-routes.ts'

type DashboardSettings = Pick<GatewayConfig, 'pingMs' | 'stalledMs' | 'keyFile'> & {
  entrance: Entrance
  keyring: Keyring
}

const agentKey = z.object({
  name: z.string().regex(KEY_NAME, 'must be 1 to 100 printable characters').default('an agent'),
})

/** Time between two readings for open pages, in milliseconds. */
const LIVE_MS = 1_000

/** Updates, moves of the head and freezes that `lately` has of each. */
const LATEST = 20

export const addDashboard = (
  server: FastifyInstance,
  ports: DashboardPorts,
  { entrance, keyring, keyFile, pingMs, stalledMs }: DashboardSettings,
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
  const get: Get = (path, handler) => {
    server.get(`/v1/dashboard/${path}`, (request, reply) => {
      const reading = entrance.checkReading(request)
      void reply.header('cache-control', 'no-store')
      return handler(request, reading, reply)
    })
  }
  get('now', () => ports.status())
  get('health', () => ports.checks())
  get('errors', () => ERRORS)
  const [versionsAnswer, learningAnswer] = [new KeptAnswer(), new KeptAnswer()]
  get('versions', async (request, _reading, reply) => {
    const { until } = parsedBy(versionsQuery, request.query)
    if (until !== undefined) return data().older(until)
    const lineage = await data().lineage()
    const versions = await data().versions()
    const { judges: _, ...events } = lineage
    return versionsAnswer.send(request, reply, [lineage, versions], () => ({ versions, ...events }))
  })
  get('versions/:version', async (request, reading) => {
    const version = numberOf(request)
    const row = found(await data().version(version), 'version')
    const { rows, next } = await data().batch(version)
    return { version: row, limits: ports.limits(version), turns: rowsFor(reading, rows), next }
  })
  get('versions/:version/turns', async (request, reading) => {
    const { rows, next } = await data().batch(numberOf(request), parsedBy(batchQuery, request.query).after)
    return { rows: rowsFor(reading, rows), next }
  })
  get('lately', async () => {
    const { updates, moves, freezes, refusals, judges } = await data().lineage()
    const latest = <T>(rows: readonly T[]): T[] => rows.slice(0, LATEST)
    return {
      updates: latest(updates),
      moves: latest(moves),
      freezes: latest(freezes),
      refusals: latest(refusals),
      judge: judges[0]?.['judge'] ?? null,
    }
  })
  get('learning', async (request, _reading, reply) => {
    const parts = await learningParts(data())
    return learningAnswer.send(request, reply, Object.values(parts), () => learningOf(parts))
  })
  get('callers', (request) => callersOf(data(), parsedBy(callersQuery, request.query)))
  get('sessions', (request) => {
    const { at, after, ...rest } = request.query as Record<string, unknown>
    return data().sessions(parsedBy(filter, rest) as SessionFilter, cursorOf({ at, after }))
  })
  get('sessions/:id', async (request, reading) => {
    const id = idOf(request)
    const session = found(await data().session(id), 'session')
    const turns = await data().sessionTurns(id, cursorOf(request.query as Record<string, unknown>))
    return { session, turns: { ...turns, rows: rowsFor(reading, turns.rows) } }
  })
  get('turns/:id', async (request, reading) => {
    const turn = found(await data().turn(idOf(request)), 'turn')
    const group = await data().group(String(turn['session_id']), String(turn['group_id']))
    return { turn: rowsFor(reading, [turn])[0], group: rowsFor(reading, group) }
  })
  addTextRoutes(server, get, ports, entrance)
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
      keys: keyring.locked(),
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
    const now = ports.now()
    const holder = code === undefined ? entrance.holderOf(request) : links.use(code, now)
    const cookie = holder && signed(entrance.cookieSecret, holder, now + SESSION_MS)
    // The key that made a link may have been revoked or have expired since.
    if (cookie === null || keyOfCookie(entrance.cookieSecret, cookie, (id) => keyring.named(id), now) === null)
      throw new InstarError(
        'invalid_api_key',
        'The link has expired or was used, or its API key is not valid any more; `instar open` makes another.',
      )
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
  server.post('/admin/agent-key', SMALL_BODY, (request, reply) => {
    const maker = entrance.checkAdmin(request)
    void reply.header('cache-control', 'no-store')
    const body = bytesOf(request)
    const { name } = parsedBy(agentKey, body.length === 0 ? {} : parseJson(body))
    return createAgentKey(keyFile, { name, maker, keyring, now: ports.now(), signal: goneSignal(reply) })
  })
  server.post('/admin/dashboard-link', SMALL_BODY, (request) => {
    entrance.checkAdmin(request)
    const holder = entrance.holderOf(request)
    const code = Buffer.from(ports.random(32)).toString('base64url')
    links.add(code, holder, ports.now())
    return { path: `/#code=${code}`, expires_in: LINK_MS / 1000 }
  })
  return { stop: () => live.stop() }
}
