/**
 * API keys: a public id, which is on the log and in session ids, and the hash of a secret that is shown once. The key
 * file is the only state here that cannot be rebuilt from the log.
 */
import { InstarError } from '@instar/events'

/**
 * `inference`: completions and token counts; any key may list models. `feedback`: `/v1/feedback`. `admin`: commands.
 * `train`: the key's turns are trainable. `read`: what people and models wrote, in the dashboard. `steps`: a trainer's own
 * rollouts, that is token completions, submitted steps and episodes. Only keys created with them have `read` and `steps`.
 */
export const SCOPES = ['inference', 'feedback', 'admin', 'train', 'read', 'steps'] as const
export type Scope = (typeof SCOPES)[number]

export type Key = {
  id: string
  /** Hash of the whole token, hex. */
  sha256: string
  scopes: readonly Scope[]
  /** Milliseconds since 1970; null: the key does not expire. */
  expiresAt: number | null
  requestsPerMinute: number | null
  /** Bytes of request bodies, after decoding their content encoding. */
  bytesPerMinute: number | null
  /** Concurrent requests. */
  concurrent: number | null
  /** The id of the key that made it, with which it ends, or that of `ADMIN`; absent or null: no key made it. */
  createdBy?: string | null
}

/** The caller that sends the admin token: it may run commands and nothing else. */
export const ADMIN: Key = Object.freeze({
  id: 'admin token',
  sha256: '',
  scopes: ['admin'] as const,
  expiresAt: null,
  requestsPerMinute: null,
  bytesPerMinute: null,
  concurrent: null,
})

/** `sk-instar-<id>-<secret>`: a format that secret scanners can match. */
export const tokenFor = (id: string, secret: string): string => `sk-instar-${id}-${secret}`

/** Of 32 random bytes, as `instar keys` and the file of the admin token have them. */
const RANDOM = /^(?:sk-instar-[A-Za-z0-9-]{1,32}-[A-Za-z0-9]{43}|instar-admin-[\w-]{43})$/

/**
 * Whether guesses at a token of this form need no limit. One of another form may be a word that somebody chose: while wrong
 * keys of an address are limited, it is not checked.
 */
export const isRandomToken = (token: string): boolean => RANDOM.test(token)

export const hasExpired = ({ expiresAt }: Key, now: number): boolean => expiresAt !== null && expiresAt <= now

/** Checks that the key is valid and has the scope. Throws `invalid_api_key`, `missing_scope`. */
export const checkKey = (key: Key, scope: Scope | null, now: number): void => {
  if (hasExpired(key, now)) throw new InstarError('invalid_api_key', `The API key ${key.id} has expired.`)
  if (scope !== null && !key.scopes.includes(scope))
    throw new InstarError('missing_scope', `The API key ${key.id} has no scope ${scope}.`, { scope })
}

/** A token bucket: up to n (requests or bytes) at once, then refilled evenly over a minute. */
export type Bucket = { left: number; at: number }

/** The current level; below 0 after a request that cost more than there was. */
export const filledOf = (bucket: Bucket | null, perMinute: number, now: number): number =>
  bucket === null ? perMinute : Math.min(perMinute, bucket.left + ((now - bucket.at) * perMinute) / 60_000)

/**
 * Returns the bucket after a request that costs `cost`, or the milliseconds until one fits. A request fits if the level
 * is at least 1; a higher cost makes the level negative, and the next request waits for it.
 */
export const take = (
  bucket: Bucket | null,
  perMinute: number,
  now: number,
  cost = 1,
): { bucket: Bucket } | { waitMs: number } => {
  const filled = filledOf(bucket, perMinute, now)
  if (filled < 1) return { waitMs: Math.ceil(((1 - filled) * 60_000) / perMinute) }
  return { bucket: { left: filled - cost, at: now } }
}
