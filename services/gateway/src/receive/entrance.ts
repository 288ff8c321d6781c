/**
 * Authentication, authorization and limits, in one hook before any body is read and for every route. With API keys:
 * scope and rates of the key. Without: the caller must be local, and commands need the admin token. The memory of all
 * bodies is limited together. `/health` is open; `/metrics` is exempt from limits, since a scrape must not use a
 * client's quota.
 */
import { InstarError } from '@instar/events'
import { parsedBytes, type RateLimitState } from '@instar/dialects'
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { GatewayConfig } from '../config.ts'
import { checkBind, checkJson, checkLocal, tokenOf } from './core/guard.ts'
import { ADMIN, checkKey, hasExpired, type Key, type Scope } from './core/keys.ts'
import { WrongKeys } from './core/wrong-keys.ts'
import { ADMIN_TOKEN_HEADER } from '@instar/process/admin-token'
import { LOOK_MS, type Keyring } from './keyring.ts'
import { Bodies, createRates, type Visit } from './limits.ts'

export type Entrance = {
  /** Called for every request before its body is read. Throws the client's error. */
  admit(request: FastifyRequest, reply: FastifyReply): void
  /** The remaining requests of the key; null without a limit, for an exempt route, and before `admit`. */
  standing(request: FastifyRequest): RateLimitState | null
  /** Counts bytes of a body without a declared length. Throws `overloaded`. */
  arrived(request: FastifyRequest, bytes: number): void
  /** Counts the memory of the parsed body. Throws `overloaded`. */
  parsing(request: FastifyRequest, body: Uint8Array): void
  /** The authenticated key; null without keys. Throws `invalid_api_key`, `missing_scope`. */
  check(request: FastifyRequest, scope: Scope | null): Key | null
  /** A key with the scope `admin`, or the admin token's key. Throws as `check`. */
  checkAdmin(request: FastifyRequest): Key
  /**
   * Aborted with the client's error when the request's key is revoked or expires, or when the gateway has its first key
   * and the request none. A caller that reads this signal gets
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
}

/** The state of an admitted request. `held`: bytes that its body occupies, received and parsed. */
type Caller = {
  open: boolean
  key: Key | null
  admin: boolean
  visit: Visit | null
  held: number
  raw: FastifyReply['raw']
  ended: AbortController
  notified: boolean
  over: boolean
}

/** How long a stream may take to send its error after its key was revoked. */
const LAST_WORDS_MS = 3000

export const createEntrance = ({ config, keyring, now, monotonic, adminToken }: EntrancePorts): Entrance => {
  const secret = adminToken === null ? null : digest(adminToken)
  const wrong = new WrongKeys(config.wrongKeysPerMinute)
  /** Keys that authenticated since the start. They are exempt from the limit on failed attempts from their address. */
  const shown = new Set<string>()
  const rates = createRates(now, monotonic)
  const bodies = new Bodies(config.bodiesLimit, config.bodyLimit)
  const callers = new WeakMap<FastifyRequest, Caller>()
  const inside = new Set<Caller>()
  const sockets = new WeakMap<Socket, Set<() => void>>()

  const isAdmin = (request: FastifyRequest): boolean => {
    if (secret === null) return false
    const tokens = [one(request.headers[ADMIN_TOKEN_HEADER]), tokenIn(request)]
    return tokens.some((token) => token !== null && timingSafeEqual(digest(token), secret))
  }
  /**
   * Finds the key of the request's token. While the address is rate-limited, the token is not checked. Throws
   * `rate_limited`.
   */
  const identify = (request: FastifyRequest): { key: Key | null; admin: boolean } => {
    if (!keyring.locked() && !routeOf(request).startsWith('/admin/')) return { key: null, admin: false }
    const token = tokenIn(request)
    const key = token === null ? null : keyring.find(token)
    const admin = isAdmin(request)
    if ((key && shown.has(key.id)) || (admin && shown.has(ADMIN.id))) return { key, admin }
    const guesses = token !== null || request.headers[ADMIN_TOKEN_HEADER] !== undefined
    const address = guesses ? addressOf(request) : null
    const waitMs = address === null ? 0 : wrong.waitMs(address, monotonic())
    if (waitMs > 0)
      throw new InstarError('rate_limited', 'Too many wrong API keys came from this address.', { retryAfterMs: waitMs })
    if (key || admin) shown.add(key?.id ?? ADMIN.id)
    else if (address !== null) wrong.count(address, monotonic())
    return { key, admin }
  }
  const unknown = (request: FastifyRequest): InstarError => {
    const wrongKey = 'The API key is not one of this gateway; where it has none any more, `instar keys add` makes one.'
    return new InstarError('invalid_api_key', tokenIn(request) === null ? 'You did not send an API key.' : wrongKey)
  }

  const callerOf = (request: FastifyRequest): Caller => {
    const caller = callers.get(request)
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
    const { key, open } = callerOf(request)
    if (open) return null
    if (scope === 'admin') return checkAdmin(request)
    if (key) checkKey(key, scope, now())
    else if (scope !== null) throw unknown(request)
    return key
  }

  /**
   * Calls `end` once, when the response is closed, or the connection if the request was pipelined behind another one.
   */
  const onceOver = (request: FastifyRequest, reply: FastifyReply, end: () => void): void => {
    const { socket } = request.raw
    let ends = sockets.get(socket)
    if (!ends) {
      ends = new Set()
      sockets.set(socket, ends)
      socket.once('close', () => {
        for (const one of sockets.get(socket) ?? []) one()
      })
    }
    ends.add(end)
    reply.raw.once('close', () => {
      ends.delete(end)
      end()
    })
  }

  /** The reason why a running request may not go on, or null. Its key's expiry may have changed since it began. */
  const whyEnded = ({ key, open }: Caller): InstarError | null => {
    const held = key && keyring.held(key)
    let why: string | null = null
    if (key && !held) why = `The API key ${key.id} was revoked.`
    else if (held && hasExpired(held, now())) why = `The API key ${held.id} has expired.`
    else if (open && keyring.locked()) why = 'The gateway has API keys now, and the request has none.'
    return why === null ? null : new InstarError('invalid_api_key', why)
  }
  /** Ends running requests whose key is no longer valid, and those without a key once the gateway requires one. */
  const sweep = (): void => {
    for (const caller of inside) {
      const why = whyEnded(caller)
      if (why === null) continue
      inside.delete(caller)
      caller.ended.abort(why)
      if (!caller.notified) caller.raw.destroy()
      else
        setTimeout(() => {
          if (!caller.over) caller.raw.destroy()
        }, LAST_WORDS_MS).unref()
    }
    if (inside.size === 0) rest()
  }
  let timer: NodeJS.Timeout | null = null
  const rest = (): void => {
    if (timer) clearInterval(timer)
    timer = null
  }
  const watch = (): void => {
    timer ??= setInterval(sweep, LOOK_MS)
    timer.unref()
  }

  return {
    admit(request, reply) {
      const open = !keyring.locked()
      const health = routeOf(request).startsWith('/health/')
      if (open) {
        // An open gateway must be configured so at the start. Losing its keys does not open a gateway that listens
        // beyond loopback.
        if (!health) checkBind(config.host, false, config.open)
        checkLocal(
          {
            host: request.headers.host,
            origin: one(request.headers.origin) ?? undefined,
            site: one(request.headers['sec-fetch-site']) ?? undefined,
          },
          config,
        )
      }
      const caller: Caller = {
        open,
        ...(health ? { key: null, admin: false } : identify(request)),
        visit: null,
        held: 0,
        raw: reply.raw,
        ended: new AbortController(),
        notified: false,
        over: false,
      }
      callers.set(request, caller)
      // Of every request: a body may come with any method and on any route.
      onceOver(request, reply, () => {
        if (caller.over) return
        caller.over = true
        inside.delete(caller)
        if (inside.size === 0) rest()
        caller.visit?.end()
        bodies.release(caller.held, caller.key?.id ?? null)
      })
      if (health) return
      if (!open && !caller.key && !caller.admin) throw unknown(request)
      if (!open) check(request, null)
      if (isCommand(request)) {
        checkAdmin(request)
        checkJson(request.headers['content-type'])
      }
      if (routeOf(request) === '/metrics') return
      if (caller.key && !open) caller.visit = rates.enter(caller.key)
      // A caller with the admin token needs no key.
      if (caller.key || !caller.admin) {
        inside.add(caller)
        watch()
      }
      const said = lengthOf(request)
      // A body that is declared longer than the limit is refused before it is read.
      if (said !== null && said <= request.routeOptions.bodyLimit) hold(caller, said)
    },
    standing(request) {
      const caller = callers.get(request)
      return caller?.key && !caller.open && routeOf(request) !== '/metrics' ? rates.standing(caller.key) : null
    },
    arrived: (request, bytes) => hold(callerOf(request), bytes),
    parsing(request, body) {
      const caller = callers.get(request)
      if (caller && body.length > 0) keep(caller, parsedBytes(body))
    },
    check,
    checkAdmin,
    revoked(request) {
      const caller = callerOf(request)
      caller.notified = true
      return caller.ended.signal
    },
    held: () => bodies.held,
    stop: rest,
  }

  function hold(caller: Caller, bytes: number): void {
    if (caller.over) return
    keep(caller, bytes)
    caller.visit?.charge(bytes)
  }

  function keep(caller: Caller, bytes: number): void {
    if (caller.over) return
    bodies.hold(bytes, caller.key?.id ?? null, caller.held)
    caller.held += bytes
  }
}

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

/** The declared length of an unencoded body; null if its size is not known in advance. */
const lengthOf = ({ headers }: FastifyRequest): number | null => {
  const length = headers['content-length']
  return isCounted(headers) || length === undefined ? null : Number(length)
}

/** Whether the bytes of the body are counted as they arrive. */
export const isCounted = (headers: FastifyRequest['headers']): boolean =>
  headers['transfer-encoding'] !== undefined || (headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity'

const tokenIn = (request: FastifyRequest): string | null =>
  tokenOf(request.headers.authorization, one(request.headers['x-api-key']) ?? undefined)

export const one = (value: string | string[] | undefined): string | null =>
  (Array.isArray(value) ? value[0] : value) ?? null

export const pathOf = (request: FastifyRequest): string => request.url.split('?')[0]!.slice(0, 200)
