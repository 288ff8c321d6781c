/** Access without API keys: local clients are allowed, pages of other sites in a browser are not. */
import { InstarError } from '@instar/events'

const LOOPBACK = /^(localhost|[a-z0-9-]+\.localhost|127(\.\d{1,3}){3}|\[::1\]|::1)$/i

export const isLoopback = (host: string): boolean => LOOPBACK.test(host)

/** Without keys, listening beyond loopback must be configured explicitly. */
export const checkBind = (host: string, locked: boolean, open: boolean): void => {
  if (locked || open || isLoopback(host)) return
  throw new InstarError(
    'open_bind',
    `The gateway will not listen on ${host} without API keys: anybody who reaches it could use and teach the model.`,
    { host },
  )
}

const hostname = (authority: string): string | null => {
  const match = /^(\[[0-9a-f:.]+\]|[^:/?#@\s]+)(?::\d{1,5})?$/i.exec(authority)
  return match ? match[1]!.toLowerCase() : null
}

/** `scheme://host[:port]` without the scheme's default port; null if the text is not an http(s) origin. */
const originOf = (text: string): string | null => {
  if (!/^https?:\/\/[^/?#@\s]+$/i.test(text)) return null
  return URL.canParse(text) ? new URL(text).origin : null
}

/** `origins`: origins of other sites whose pages may call (INSTAR_ORIGINS), as browsers write them. */
type Local = { open: boolean; host: string; allowedHosts: readonly string[]; origins: readonly string[] }

type CallerHeaders = { host?: string | undefined; origin?: string | undefined; site?: string | undefined }

/**
 * Accepts loopback names, the bound address and the configured names. An open gateway also accepts addresses and names
 * without a dot (a container's), because the DNS of another site cannot serve those.
 */
const isOurs = (host: string, local: Local): boolean =>
  isLoopback(host) ||
  host === local.host.toLowerCase() ||
  local.allowedHosts.includes(host) ||
  (local.open && (/^\d{1,3}(\.\d{1,3}){3}$/.test(host) || host.startsWith('[') || !host.includes('.')))

export const isListed = (origin: string, { origins }: Pick<Local, 'origins'>): boolean => {
  const asked = originOf(origin)
  return asked !== null && origins.some((listed) => originOf(listed) === asked)
}

/**
 * Checks a request without API keys. The Host must be an accepted one, and a browser's page must be of the gateway's
 * own origin (its Origin equals the Host) or of a listed one. `site`: `Sec-Fetch-Site`, which browsers send where they
 * omit the Origin. Throws `foreign_request`.
 */
export const checkLocal = ({ host, origin, site }: CallerHeaders, local: Local): void => {
  const name = host === undefined ? null : hostname(host)
  if (host === undefined || name === null || !isOurs(name, local)) {
    throw new InstarError('foreign_request', 'The Host header does not name this gateway.', { field: 'host' })
  }
  if (origin !== undefined && isListed(origin, local)) return
  checkSameOrigin({ host, origin, site })
}

/**
 * Refuses a request that a page of another origin makes. `tls`: the page may have been loaded by https, which ends in front
 * of the gateway. Throws `foreign_request`.
 */
export const checkSameOrigin = ({ host, origin, site }: CallerHeaders, tls = false): void => {
  const schemes = tls ? ['http', 'https'] : ['http']
  if (origin !== undefined && !schemes.some((scheme) => originOf(origin) === (originOf(`${scheme}://${host}`) ?? ''))) {
    const said = JSON.stringify(origin.slice(0, 100))
    throw new InstarError(
      'foreign_request',
      `The page of Origin ${said} may not call this gateway; INSTAR_ORIGINS lists those that may.`,
      { field: 'origin' },
    )
  }
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    throw new InstarError('foreign_request', 'The request comes from a page of another site (Sec-Fetch-Site).', {
      field: 'sec-fetch-site',
    })
  }
}

/** Commands require JSON: a page of another site cannot send it without a CORS preflight. Throws `not_json`. */
export const checkJson = (contentType: string | undefined): void => {
  if (/^application\/json\s*(;|$)/i.test(contentType ?? '')) return
  throw new InstarError('not_json', 'A command is sent as content-type: application/json.', { field: 'content-type' })
}

/** The token of `Authorization: Bearer` or `x-api-key`. */
export const tokenOf = (authorization: string | undefined, apiKey: string | undefined): string | null =>
  /^Bearer\s+(\S+)\s*$/i.exec(authorization ?? '')?.[1] ?? apiKey?.trim() ?? null
