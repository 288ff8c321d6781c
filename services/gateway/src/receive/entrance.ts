/**
 * Authentication, authorization and limits, in one hook before any body is read and for every route. With API keys:
 * scope and rates of the key. Without: the caller must be local, and commands need the admin token. The memory of all
 * bodies is limited together. `/health` is open; `/metrics` is exempt from limits, since a scrape must not use a
 * client's quota.
 */
import { InstarError } from '@instar/events'
import { parsedBytes, type RateLimitState } from '@instar/dialects'
import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { GatewayConfig } from '../config.ts'
import { checkBind, checkJson, checkLocal, tokenOf } from './core/guard.ts'
import { cookieSecret, EndedVisits, type Holder } from '../dashboard/visit.ts'
import { readingOf, visitor, type Reading } from '../dashboard/visitor.ts'
import { ADMIN, checkKey, hasExpired, isRandomToken, type Key, type Scope } from './core/keys.ts'
import { WrongKeys } from './core/wrong-keys.ts'
import { ADMIN_TOKEN_HEADER } from '@instar/process/admin-token'
import type { Keyring } from './keyring.ts'
import { lengthOf } from './request-parts.ts'
import { createOnceOver, RunningCallers } from './running-callers.ts'
import { BodyMemory, ownerOf, type Holding } from './body-memory.ts'
import { createRates, type Visit } from './limits.ts'

export type Entrance = {
  /** Called for every request before its body is read. Throws the client's error. */
  admit(request: FastifyRequest, reply: FastifyReply): void
  /** The remaining requests of the key; null without a limit, for an exempt route, and before `admit`. */
  standing(request: FastifyRequest): RateLimitState | null
  /** Counts bytes of a body without a declared length for the rate of the key, also after the answer. */
  arrived(request: FastifyRequest, bytes: number): void
  /** The memory that the request's body is charged to. */
  holding(request: FastifyRequest): Holding
  /** Counts the memory of the parsed body. Throws `overloaded`. */
  parsing(request: FastifyRequest, body: Uint8Array): void
  /**
   * Counts memory that the request occupies besides its body, until it ends. Throws `overloaded`. Who keeps it does not keep
   * the request and its body.
   */
  holdOf(request: FastifyRequest): (bytes: number) => void
  /** The authenticated key; null without keys. Throws `invalid_api_key`, `missing_scope`. */
  check(request: FastifyRequest, scope: Scope | null): Key | null
  /** A key with the scope `admin`, or the admin token's key. Throws as `check`. */
  checkAdmin(request: FastifyRequest): Key
  /** What the caller may do in the dashboard. Throws as `check`, if it may not even see numbers. */
  checkReading(request: FastifyRequest): Reading
  /** The dashboard session of the request; `reading` null: the caller must begin one. */
  visitOf(request: FastifyRequest): { cookie: string | null; reading: Reading | null; who: string }
  /** Ends the dashboard session of the request. */
  endVisit(request: FastifyRequest): void
  /** Whose session the request's key or admin token may begin. Throws as `check`. */
  holderOf(request: FastifyRequest): Holder
  readonly cookieSecret: Uint8Array
  /**
   * Aborted with the client's error when the request's key is revoked or expires, its session of the dashboard ends, or
   * when the gateway has its first key and the request none. A caller that reads this signal gets
   * a short time to send the error; otherwise the connection is closed at once.
   */
  revoked(request: FastifyRequest): AbortSignal
  /** Bytes that bodies occupy now. */
  held(): number
  stop(): void
}

type EntrancePorts = {
  config: GatewayConfig
  keyring: Keyring
  now: () => number
  monotonic: () => number
  /** Null: commands need a key. */
  adminToken: string | null
  random: (bytes: number) => Uint8Array
}

/** The state of an admitted request. `holding`: what its body occupies, received and parsed. */
type Caller = {
  open: boolean
  key: Key | null
  admin: boolean
  /** The cookie of a dashboard session that is valid; null: none. */
  cookie: string | null
  visit: Visit | null
  holding: Holding
  raw: FastifyReply['raw']
  ended: AbortController
  notified: boolean
  over: boolean
}

export const createEntrance = ({ config, keyring, now, monotonic, adminToken, random }: EntrancePorts): Entrance => {
  const secret = adminToken === null ? null : digest(adminToken)
  // Sessions of the dashboard end with the process: whoever listens at the port after it is told them by open pages. Several
  // gateways of one INSTAR_ADMIN_TOKEN have the same.
  const cookies = config.adminToken === null ? random(32) : cookieSecret(config.adminToken)
  const wrong = new WrongKeys(config.wrongKeysPerMinute)
  /** Keys that authenticated since the start. They are exempt from the limit on failed attempts from their address. */
  const shown = new Set<string>()
  const rates = createRates(now, monotonic)
  const bodies = new BodyMemory(config.bodiesLimit, config.bodyLimit)
  const onceOver = createOnceOver()
  /** The Host of the last request that was let in, of which requests without an Origin are let in, too. */
  let usualHost: string | undefined
  const ended = new EndedVisits()

  const tokensIn = (request: FastifyRequest): string[] =>
    [one(request.headers[ADMIN_TOKEN_HEADER]), tokenIn(request)].filter((token) => token !== null)
  const isAdmin = (request: FastifyRequest): boolean =>
    secret !== null && tokensIn(request).some((token) => timingSafeEqual(digest(token), secret))
  /**
   * Finds the key of the request's token. While the address is rate-limited, only a token of random bytes counts: others of
   * this machine have the same address, and could keep every command out. Throws `rate_limited`.
   */
  const identify = (request: FastifyRequest): Pick<Caller, 'key' | 'admin' | 'cookie'> => {
    const ofDashboard = routeOf(request).startsWith('/v1/dashboard/')
    if (!keyring.locked() && !routeOf(request).startsWith('/admin/') && !ofDashboard) return NOBODY
    const visit = tokenIn(request) === null ? visitor(request, { secret: cookies, keyring, now: now(), ended }) : null
    if (visit) return visit
    const token = tokenIn(request)
    const key = token === null ? null : keyring.find(token)
    const admin = isAdmin(request)
    if ((key && shown.has(key.id)) || (admin && shown.has(ADMIN.id))) return { key, admin, cookie: null }
    const guesses = token !== null || request.headers[ADMIN_TOKEN_HEADER] !== undefined
    const address = guesses ? addressOf(request) : null
    const waitMs = address === null ? 0 : wrong.waitMs(address, monotonic())
    if (waitMs > 0 && !((key || admin) && tokensIn(request).some(isRandomToken)))
      throw new InstarError('rate_limited', 'Too many wrong API keys came from this address.', { retryAfterMs: waitMs })
    if (key || admin) shown.add(key?.id ?? ADMIN.id)
    else if (address !== null) wrong.count(address, monotonic())
    return { key, admin, cookie: null }
  }
  const unknown = (request: FastifyRequest): InstarError => {
    const wrongKey = 'The API key is not one of this gateway; where it has none any more, `instar keys add` makes one.'
    return new InstarError('invalid_api_key', tokenIn(request) === null ? 'You did not send an API key.' : wrongKey)
  }

  const callerOf = (request: FastifyRequest): Caller => {
    const caller = admitted(request)[CALLER]
    if (!caller) throw new InstarError('internal', 'a request that was not let in is asked about')
    return caller
  }
  const checkAdmin = (request: FastifyRequest): Key => {
    const { key, admin, open } = callerOf(request)
    if (key && !open && (!admin || key.scopes.includes('admin'))) {
      checkKey(key, 'admin', now())
      return key
    }
    if (admin) return ADMIN
    throw new InstarError(
      'invalid_api_key',
      `A command needs the admin token (${ADMIN_TOKEN_HEADER}), or an API key with the scope admin.`,
    )
  }
  const check = (request: FastifyRequest, scope: Scope | null): Key | null => {
    const { key, open, admin, cookie } = callerOf(request)
    if (open) return null
    if (scope === 'admin') return checkAdmin(request)
    // The operator's own session may do what anybody may at a gateway without keys.
    if (admin && cookie !== null) return null
    if (key) checkKey(key, scope, now())
    else if (scope !== null) throw unknown(request)
    return key
  }

  const checkReading = (request: FastifyRequest): Reading => {
    const caller = callerOf(request)
    if (caller.key) checkKey(caller.key, null, now())
    const reading = readingOf(caller, config.host)
    if (reading) return reading
    if (caller.key === null) throw unknown(request)
    throw new InstarError('missing_scope', `The API key ${caller.key.id} has neither the scope read nor admin.`, {
      scope: 'read',
    })
  }

  /** The reason why a running request may not go on, or null. Its key's expiry may have changed since it began. */
  const whyEnded = ({ key, open, cookie }: Caller): InstarError | null => {
    const held = key && keyring.held(key)
    let why: string | null = null
    if (key && !held) why = `The API key ${key.id} was revoked.`
    else if (held && hasExpired(held, now())) why = `The API key ${held.id} has expired.`
    else if (cookie !== null && ended.isOver(cookie, now())) why = 'The session of the dashboard is over.'
    else if (open && keyring.locked()) why = 'The gateway has API keys now, and the request has none.'
    return why === null ? null : new InstarError('invalid_api_key', why)
  }
  const inside = new RunningCallers<Caller>(whyEnded)

  return {
    admit(request, reply) {
      const open = !keyring.locked()
      const health = routeOf(request).startsWith('/health/')
      if (open) {
        // An open gateway must be configured so at the start. Losing its keys does not open a gateway that listens
        // beyond loopback.
        if (!health) checkBind(config.host, false, config.open)
        const { host, origin, 'sec-fetch-site': site } = request.headers
        const isUsual = host !== undefined && host === usualHost && origin === undefined && site === undefined
        if (!isUsual) checkLocal({ host, origin: one(origin) ?? undefined, site: one(site) ?? undefined }, config)
        usualHost = host
      }
      const known = health ? NOBODY : identify(request)
      const owner = ownerOf(known, request.raw.socket.remoteAddress)
      const caller: Caller = {
        open,
        ...known,
        visit: null,
        holding: bodies.enter(owner),
        raw: reply.raw,
        ended: new AbortController(),
        notified: false,
        over: false,
      }
      admitted(request)[CALLER] = caller
      // Of every request: a body may come with any method and on any route.
      onceOver(request, reply, () => {
        if (caller.over) return
        caller.over = true
        inside.delete(caller)
        caller.visit?.end()
        caller.holding.release()
      })
      if (health) return
      // The dashboard's files hold nothing, and its sessions begin without one.
      if (isUnlocked(request)) return
      if (!open && !caller.key && !caller.admin) throw unknown(request)
      if (!open) check(request, null)
      if (isCommand(request)) {
        checkAdmin(request)
        checkJson(request.headers['content-type'])
      }
      if (routeOf(request) === '/metrics') return
      if (caller.key && !open) caller.visit = rates.enter(caller.key)
      // A caller with the admin token needs no key.
      if (caller.key || caller.cookie !== null || !caller.admin) {
        inside.add(caller)
      }
      const said = lengthOf(request)
      // A body that is declared longer than the limit is refused before it is read.
      if (said === null || said > request.routeOptions.bodyLimit) return
      bodies.foresee(owner, said)
      caller.visit?.charge(said)
    },
    standing(request) {
      const caller = admitted(request)[CALLER]
      return caller?.key && !caller.open && routeOf(request) !== '/metrics' ? rates.standing(caller.key) : null
    },
    arrived(request, bytes) {
      callerOf(request).visit?.charge(bytes)
    },
    holding: (request) => callerOf(request).holding,
    parsing(request, body) {
      if (body.length > 0) admitted(request)[CALLER]?.holding.hold(parsedBytes(body))
    },
    holdOf(request) {
      const { holding } = callerOf(request)
      return (bytes) => holding.hold(bytes)
    },
    check,
    checkAdmin,
    checkReading,
    visitOf(request) {
      const caller = callerOf(request)
      const who = caller.admin ? ADMIN_HOLDER.id : (caller.key?.id ?? `from ${request.ip}`)
      return { cookie: caller.cookie, reading: readingOf(caller, config.host), who }
    },
    endVisit: (request) => ended.add(callerOf(request).cookie, now()),
    holderOf(request) {
      const { key, admin } = callerOf(request)
      if (admin) return ADMIN_HOLDER
      checkReading(request)
      if (key === null) throw unknown(request)
      return { id: key.id, binding: key.sha256 }
    },
    cookieSecret: cookies,
    revoked(request) {
      const caller = callerOf(request)
      caller.notified = true
      return caller.ended.signal
    },
    held: () => bodies.held,
    stop: () => inside.stop(),
  }
}

/** On the request itself: an entry of a WeakMap costs each request, and the garbage collector, more. */
const CALLER = Symbol('caller')
const admitted = (request: FastifyRequest): { [CALLER]?: Caller } => request as { [CALLER]?: Caller }

const NOBODY = { key: null, admin: false, cookie: null } as const
const ADMIN_HOLDER: Holder = { id: ADMIN.id, binding: ADMIN.sha256 }

/** Routes that need no key, although there are keys. */
const UNLOCKED: ReadonlySet<string> = new Set(['/', '/dashboard/*', '/v1/dashboard/session'])
const isUnlocked = (request: FastifyRequest): boolean => UNLOCKED.has(routeOf(request))

const digest = (token: string): Buffer => createHash('sha256').update(token).digest()

const routeOf = (request: FastifyRequest): string => request.routeOptions.url ?? ''

/** Throws `aborted` if the connection has closed and its address is gone. */
const addressOf = ({ raw }: FastifyRequest): string => {
  const address = raw.socket.remoteAddress
  if (address === undefined) throw new InstarError('aborted', 'The client closed the connection.')
  return address
}

const isCommand = (request: FastifyRequest): boolean =>
  request.method === 'POST' && routeOf(request).startsWith('/admin/')

const tokenIn = (request: FastifyRequest): string | null =>
  tokenOf(request.headers.authorization, one(request.headers['x-api-key']) ?? undefined)

export const one = (value: string | string[] | undefined): string | null =>
  (Array.isArray(value) ? value[0] : value) ?? null

export const pathOf = (request: FastifyRequest): string => request.url.split('?')[0]!.slice(0, 200)
