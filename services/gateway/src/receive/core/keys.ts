/**
 * API keys: a public id, which is on the log and in session ids, and the hash of a secret that is shown once.
 * The key store is a file, the one thing here that the log could not give back.
 */
import { InstarError } from '@instar/events'

/**
 * `inference`: answers and counts of tokens; models are listed for any key. `feedback`: `/v1/feedback`. `admin`: commands. `train`: its turns may be learned from. `steps`: rollouts of a
 * trainer's own: tokens for tokens, steps that it made, episodes; no key has it unless it was asked for. */
export const SCOPES = ['inference', 'feedback', 'admin', 'train', 'steps'] as const
export type Scope = (typeof SCOPES)[number]

export type Key = {
  id: string
  /** Of the whole token, hex. */
  sha256: string
  scopes: readonly Scope[]
  /** Milliseconds; null: never. */
  expiresAt: number | null
  requestsPerMinute: number | null
  /** Of request bodies, as they are before their encoding. */
  bytesPerMinute: number | null
  /** Requests at once. */
  concurrent: number | null
}

/** Characters of an admin token, at the least: shorter ones could be guessed. */
export const LEAST_TOKEN = 20

/** Whoever shows the admin token: commands, and nothing else. */
export const ADMIN: Key = Object.freeze({
  id: 'admin token',
  sha256: '',
  scopes: ['admin'] as const,
  expiresAt: null,
  requestsPerMinute: null,
  bytesPerMinute: null,
  concurrent: null,
})

/** `sk-instar-<id>-<secret>`: what scanners for leaked secrets can look for. */
export const tokenFor = (id: string, secret: string): string => `sk-instar-${id}-${secret}`

export const hasExpired = ({ expiresAt }: Key, now: number): boolean => expiresAt !== null && expiresAt <= now

/** What a request may do that came with this key. Throws `invalid_api_key`, `missing_scope`. */
export const checkKey = (key: Key, scope: Scope | null, now: number): void => {
  if (hasExpired(key, now)) throw new InstarError('invalid_api_key', `The API key ${key.id} has expired.`)
  if (scope !== null && !key.scopes.includes(scope))
    throw new InstarError('missing_scope', `The API key ${key.id} has no scope ${scope}.`, { scope })
}

/** A bucket that fills evenly: n (of requests, of bytes) at once, then one every 60/n seconds. */
export type Bucket = { left: number; at: number }

/** What is in it now; below 0: a debt. */
export const filledOf = (bucket: Bucket | null, perMinute: number, now: number): number =>
  bucket === null ? perMinute : Math.min(perMinute, bucket.left + ((now - bucket.at) * perMinute) / 60_000)

/**
 * The bucket after something that costs `cost`, or how many milliseconds until there is room for it. There is room where one is
 * left: what costs more leaves a debt, which is waited for by the next.
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
