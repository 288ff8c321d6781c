/** Who may call: an API key with its scope; without keys the machine itself, and for commands the admin token. */
import { InstarError } from '@instar/events'
import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { GatewayConfig } from '../config.ts'
import { checkBind, checkJson, checkLocal, tokenOf } from '../core/guard.ts'
import { ADMIN, type Key, type Scope } from '../core/keys.ts'
import { ADMIN_TOKEN_HEADER } from './admin-token.ts'
import type { Keyring } from './keyring.ts'

export type Entrance = {
  /** Of every request, before its body is read. */
  admit(request: FastifyRequest): void
  /** The key that acts; null without keys. Throws `invalid_api_key`, `missing_scope`. */
  check(request: FastifyRequest, scope: Scope | null): Key | null
  /** A key with the scope `admin`, or the admin token's: never null. Throws as `check`. */
  checkAdmin(request: FastifyRequest): Key
}

export type EntrancePorts = { config: GatewayConfig; keyring: Keyring; /** Null: commands need a key. */ adminToken: string | null }

export const createEntrance = ({ config, keyring, adminToken }: EntrancePorts): Entrance => {
  const secret = adminToken === null ? null : digest(adminToken)
  const isAdmin = (request: FastifyRequest): boolean => {
    if (secret === null) return false
    const shown = [one(request.headers[ADMIN_TOKEN_HEADER]), tokenIn(request)]
    return shown.some((token) => token !== null && timingSafeEqual(digest(token), secret))
  }
  const isHealth = (request: FastifyRequest): boolean => pathOf(request).startsWith('/health/')

  const checkAdmin = (request: FastifyRequest): Key => {
    if (isAdmin(request)) return ADMIN
    if (keyring.locked()) return keyring.find(tokenIn(request), 'admin')
    throw new InstarError('invalid_api_key', `A command needs the admin token (${ADMIN_TOKEN_HEADER}), or an API key with the scope admin.`)
  }
  const check = (request: FastifyRequest, scope: Scope | null): Key | null => {
    if (keyring.locked()) return scope === 'admin' ? checkAdmin(request) : keyring.find(tokenIn(request), scope)
    return null
  }
  return {
    admit(request) {
      if (!keyring.locked()) {
        // The last key may have been revoked since the start: what listens beyond loopback does not open for that.
        if (!isHealth(request)) checkBind(config.host, false, config.open)
        const { host } = request.headers
        checkLocal({ host, origin: one(request.headers.origin) ?? undefined, site: one(request.headers['sec-fetch-site']) ?? undefined }, config)
      } else if (!isHealth(request) && !isAdmin(request)) check(request, null)
      if (pathOf(request).startsWith('/admin/') && request.method === 'POST') {
        checkAdmin(request)
        checkJson(request.headers['content-type'])
      }
    },
    check,
    checkAdmin,
  }
}

const digest = (token: string): Buffer => createHash('sha256').update(token).digest()

export const tokenIn = (request: FastifyRequest): string | null =>
  tokenOf(request.headers.authorization, one(request.headers['x-api-key']) ?? undefined)

export const one = (value: string | string[] | undefined): string | null => (Array.isArray(value) ? value[0] : value) ?? null

export const pathOf = (request: FastifyRequest): string => request.url.split('?')[0]!.slice(0, 200)
