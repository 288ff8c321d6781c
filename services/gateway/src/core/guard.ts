/** Who may call: a key, or without keys the machine itself (a browser page of another site may not). */
import { InstarError } from '@instar/events'

const LOOPBACK = /^(localhost|[a-z0-9-]+\.localhost|127(\.\d{1,3}){3}|\[::1\]|::1)$/i

export const isLoopback = (host: string): boolean => LOOPBACK.test(host)

/** Beyond loopback without keys only where somebody said so. */
export const checkBind = (host: string, locked: boolean, open: boolean): void => {
  if (locked || open || isLoopback(host)) return
  throw new InstarError('open_bind', `The gateway will not listen on ${host} without API keys: anybody who reaches it could use and teach the model.`, { host })
}

const hostname = (authority: string): string | null => {
  const match = /^(\[[0-9a-f:.]+\]|[^:/?#@\s]+)(?::\d{1,5})?$/i.exec(authority)
  return match ? match[1]!.toLowerCase() : null
}

const originHost = (origin: string): string | null => {
  const match = /^https?:\/\/([^/?#]+)$/i.exec(origin)
  return match ? hostname(match[1]!) : null
}

export type Local = { open: boolean; host: string; allowedHosts: readonly string[] }

/**
 * Loopback names, the bound address, the listed ones. An open gateway is reached by other names too: by
 * addresses and by names without a dot (a container's), neither of which a foreign site's DNS can be.
 */
const isOurs = (host: string, local: Local): boolean =>
  isLoopback(host) || host === local.host.toLowerCase() || local.allowedHosts.includes(host)
  || (local.open && (/^\d{1,3}(\.\d{1,3}){3}$/.test(host) || host.startsWith('[') || !host.includes('.')))

/** Throws `foreign_request`. */
export const checkLocal = (headers: { host?: string; origin?: string }, local: Local): void => {
  const host = headers.host === undefined ? null : hostname(headers.host)
  if (host === null || !isOurs(host, local)) throw new InstarError('foreign_request', 'The Host header does not name this gateway.', { field: 'host' })
  if (headers.origin === undefined) return
  const origin = originHost(headers.origin)
  if (origin === null || !isOurs(origin, local)) throw new InstarError('foreign_request', 'The Origin header names another site.', { field: 'origin' })
}

/** The token of `Authorization: Bearer`, or `x-api-key`. */
export const tokenOf = (authorization: string | undefined, apiKey: string | undefined): string | null => /^Bearer\s+(\S+)\s*$/i.exec(authorization ?? '')?.[1] ?? apiKey?.trim() ?? null
