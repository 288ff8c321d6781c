/**
 * Sessions of a browser at the dashboard: a signed cookie that names a key, or the admin token, and when it expires. The
 * gateway keeps none of them, only those that were ended: a revoked key ends its sessions, and another admin token ends all
 * of its own.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { ADMIN, hasExpired, type Key } from '../receive/core/keys.ts'

export const COOKIE = 'instar_dashboard'
export const CSRF_HEADER = 'x-instar-csrf'
/** How long a session lasts, and how long a one-time link may be opened, in milliseconds. */
export const SESSION_MS = 12 * 3_600_000
export const LINK_MS = 5 * 60_000

/** `id`: of a key, or that of `ADMIN`. `binding`: the key's hash; '' for the admin token. */
export type Holder = { id: string; binding: string }

const mac = (secret: Uint8Array, text: string): Buffer => createHmac('sha256', secret).update(text).digest()

/** The secret of the signatures, from the admin token. */
export const cookieSecret = (adminToken: string): Uint8Array => mac(Buffer.from(adminToken), 'instar dashboard cookie')

const payloadOf = ({ id }: Holder, until: number): string => `${Buffer.from(id).toString('base64url')}.${until}`

/** The value of the cookie. `until`: milliseconds since 1970. */
export const signed = (secret: Uint8Array, holder: Holder, until: number): string => {
  const payload = payloadOf(holder, until)
  return `${payload}.${mac(secret, `${payload}.${holder.binding}`).toString('base64url')}`
}

/**
 * The key of a cookie; null if it is forged, expired, or its key is gone. `keyOf`: the key with this id.
 */
export const keyOfCookie = (
  secret: Uint8Array,
  cookie: string,
  keyOf: (id: string) => Key | null,
  now: number,
): Key | null => {
  const match = /^([\w-]{1,64})\.(\d{1,15})\.([\w-]{43})$/.exec(cookie)
  if (!match) return null
  const [, name, until, given] = match as unknown as [string, string, string, string]
  if (Number(until) <= now) return null
  const id = Buffer.from(name, 'base64url').toString('utf8')
  const key = id === ADMIN.id ? ADMIN : keyOf(id)
  if (key === null || hasExpired(key, now)) return null
  // As text: several texts are the same bytes, and a session that signed out is known by its text.
  const wanted = Buffer.from(mac(secret, `${name}.${until}.${key.sha256}`).toString('base64url'))
  return timingSafeEqual(wanted, Buffer.from(given)) ? key : null
}

/**
 * The token that requests of a session send in `CSRF_HEADER`. It is told once, to the page that began the session, and no
 * other page or server gets it.
 */
export const csrfOf = (secret: Uint8Array, cookie: string): string =>
  mac(secret, `csrf ${cookie}`).toString('base64url')

export const isCsrf = (secret: Uint8Array, cookie: string, given: string | null): boolean => {
  const [a, b] = [Buffer.from(csrfOf(secret, cookie)), Buffer.from(given ?? '')]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** The value of a cookie in a `Cookie` header; null: absent. */
export const cookieIn = (header: string | undefined): string | null => {
  for (const part of (header ?? '').split(';')) {
    const at = part.indexOf('=')
    if (at > 0 && part.slice(0, at).trim() === COOKIE) return part.slice(at + 1).trim()
  }
  return null
}

export const setCookie = (value: string, seconds: number, secure: boolean): string =>
  `${COOKIE}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`

/** Codes of one-time links, each for one session of whoever made it. */
export class Links {
  /** `until`: when the code expires. */
  private readonly codes = new Map<string, { holder: Holder; until: number }>()
  static readonly MOST = 100

  add(code: string, holder: Holder, now: number): void {
    for (const [one, { until }] of this.codes) if (until <= now || this.codes.size >= Links.MOST) this.codes.delete(one)
    this.codes.set(code, { holder, until: now + LINK_MS })
  }

  /** Whose session the code begins; null: it was not valid. It is not any more. */
  use(code: string, now: number): Holder | null {
    const made = this.codes.get(code)
    this.codes.delete(code)
    return made !== undefined && made.until > now ? made.holder : null
  }
}

const untilOf = (cookie: string): number => Number(cookie.split('.')[1])
const holderIn = (cookie: string): string => cookie.split('.')[0]!

/** `all`: every session of the holder that ends by then is over. `cookies`: those besides it that were ended. */
type Ended = { all: number; cookies: Set<string> }

/**
 * Cookies of sessions that were ended before they expire, until this process ends. Of each holder so many are remembered; of
 * one that ends more, all sessions that expire no later than these are over. So none is forgotten, and there are at most as
 * many holders as keys.
 */
export class EndedVisits {
  private readonly holders = new Map<string, Ended>()
  /** Cookies of one holder. */
  static readonly MOST = 100

  /** `cookie`: of a session that is valid; null: there was none. */
  add(cookie: string | null, now: number): void {
    if (cookie === null) return
    this.forgetExpired(now)
    const name = holderIn(cookie)
    const ended = this.holders.get(name) ?? { all: 0, cookies: new Set<string>() }
    ended.cookies.add(cookie)
    if (ended.cookies.size > EndedVisits.MOST) {
      ended.all = Math.max(ended.all, ...[...ended.cookies].map(untilOf))
      ended.cookies.clear()
    }
    this.holders.set(name, ended)
  }

  /** Whether the session of a cookie that was valid was ended or has expired. */
  isOver(cookie: string, now: number): boolean {
    return this.has(cookie) || untilOf(cookie) <= now
  }

  has(cookie: string): boolean {
    const ended = this.holders.get(holderIn(cookie))
    return ended !== undefined && (ended.cookies.has(cookie) || untilOf(cookie) <= ended.all)
  }

  private forgetExpired(now: number): void {
    for (const [name, { all, cookies }] of this.holders) {
      for (const one of cookies) if (untilOf(one) <= now) cookies.delete(one)
      if (cookies.size === 0 && all <= now) this.holders.delete(name)
    }
  }
}
