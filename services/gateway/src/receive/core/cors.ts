/** CORS headers, sent to listed origins only (INSTAR_ORIGINS). */
import { RATE_HEADERS } from './rate-headers.ts'

/** Response headers that a page may read besides the default ones. */
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

/** Seconds for which a browser caches a preflight response. */
const REMEMBERED = '600'

/** `origin`: a listed origin. */
export const readable = (origin: string): Record<string, string> => ({
  'access-control-allow-origin': origin,
  'access-control-expose-headers': EXPOSED,
  vary: 'Origin',
})

type Preflight = { headers: string | null; privateNetwork: boolean }

/** The response to a preflight request. Keys are sent in headers, never in cookies, so credentials are not allowed. */
export const allowed = (origin: string, { headers, privateNetwork }: Preflight): Record<string, string> => ({
  'access-control-allow-origin': origin,
  'access-control-allow-methods': 'GET, HEAD, POST, DELETE',
  'access-control-max-age': REMEMBERED,
  vary: 'Origin',
  ...(headers !== null && /^[\w\-, ]{1,2000}$/.test(headers) ? { 'access-control-allow-headers': headers } : {}),
  ...(privateNetwork ? { 'access-control-allow-private-network': 'true' } : {}),
})
