/** What a browser has to be told before a page of another origin may read an answer: for listed origins alone (INSTAR_ORIGINS). */
import { RATE_HEADERS } from './rate-headers.ts'

/** Of an answer, beside those that a page may always read. */
const EXPOSED = [
  'x-instar-version',
  'x-instar-turn-id',
  'x-instar-turn-ids',
  'x-instar-session-id',
  'x-instar-dropped-tools',
  'x-instar-ignored',
  'x-request-id',
  'request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  ...RATE_HEADERS,
].join(', ')

/** Seconds for which a browser does not ask again. */
const REMEMBERED = '600'

/** `origin`: a listed one. */
export const readable = (origin: string): Record<string, string> => ({
  'access-control-allow-origin': origin,
  'access-control-expose-headers': EXPOSED,
  vary: 'Origin',
})

type Asked = { headers: string | null; privateNetwork: boolean }

/** The answer to a browser that asks first. Keys are headers, never cookies: nothing is sent on a person's behalf. */
export const allowed = (origin: string, { headers, privateNetwork }: Asked): Record<string, string> => ({
  'access-control-allow-origin': origin,
  'access-control-allow-methods': 'GET, HEAD, POST, DELETE',
  'access-control-max-age': REMEMBERED,
  vary: 'Origin',
  ...(headers !== null && /^[\w\-, ]{1,2000}$/.test(headers) ? { 'access-control-allow-headers': headers } : {}),
  ...(privateNetwork ? { 'access-control-allow-private-network': 'true' } : {}),
})
