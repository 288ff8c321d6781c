/** Who calls with a dashboard session, and what a caller may do in the dashboard. */
import { InstarError } from '@instar/events'
import type { FastifyRequest } from 'fastify'
import { checkSameOrigin, isLoopback } from '../receive/core/guard.ts'
import { ADMIN, type Key } from '../receive/core/keys.ts'
import type { Keyring } from '../receive/keyring.ts'
import { cookieIn, CSRF_HEADER, isCsrf, keyOfCookie, type EndedVisits } from './visit.ts'

/** `text`: what people and models wrote. `actions`: admin commands. */
export type Reading = { text: boolean; actions: boolean }

/** `key` null with `admin`: the session of a one-time link. */
export type Visitor = { key: Key | null; admin: boolean; cookie: string }

const first = (value: string | string[] | undefined): string | undefined => (Array.isArray(value) ? value[0] : value)

/** Requests without the token: the stream has figures only, and a page that lost the token begins a session anew. */
const EVENTS = '/v1/dashboard/events'
const SESSION = '/v1/dashboard/session'
/** A browser asks for the page and its files with the cookie alone. */
const FILES: ReadonlySet<string> = new Set(['/', '/dashboard/*'])

/**
 * The caller of a valid session; null: none. Only pages of this gateway may use a session, and all that they do carries its
 * token: a browser sends the cookie to the servers of all ports of this host, the token only to this one. Throws
 * `foreign_request`.
 */
export const visitor = (
  { method, headers, routeOptions: { url } }: FastifyRequest,
  { secret, keyring, now, ended }: { secret: Uint8Array; keyring: Keyring; now: number; ended: EndedVisits },
): Visitor | null => {
  const cookie = cookieIn(headers.cookie)
  const key = cookie === null ? null : keyOfCookie(secret, cookie, (id) => keyring.named(id), now)
  if (cookie === null || key === null || ended.has(cookie)) return null
  checkSameOrigin({ host: headers.host, origin: first(headers.origin), site: first(headers['sec-fetch-site']) }, true)
  const reads = method === 'GET' || method === 'HEAD'
  if (!isCsrf(secret, cookie, first(headers[CSRF_HEADER]) ?? null) && !(reads && url === EVENTS)) {
    if (url === SESSION || FILES.has(url ?? '')) return null
    throw new InstarError(
      'foreign_request',
      `A request with a session of the dashboard needs its token (${CSRF_HEADER}).`,
      {
        field: CSRF_HEADER,
      },
    )
  }
  const admin = key === ADMIN
  return { key: admin ? null : key, admin, cookie }
}

/** Null: nothing. `host`: the address at which the gateway listens. `open`: it has no API keys. */
export const readingOf = (
  { open, key, admin }: { open: boolean; key: Key | null; admin: boolean },
  host: string,
): Reading | null => {
  if (admin) return { text: true, actions: true }
  if (open) return { text: isLoopback(host), actions: false }
  if (key === null) return null
  const [text, actions] = [key.scopes.includes('read'), key.scopes.includes('admin')]
  return text || actions ? { text, actions } : null
}
