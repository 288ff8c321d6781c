/** Creates an API key for an agent, for the snippets of the first page. Its token is given once. */
import { InstarError } from '@instar/events'
import { setTimeout as delay } from 'node:timers/promises'
import { ADMIN, type Key } from '../receive/core/keys.ts'
import { lockKeyFile, newKey, readKeyFile, writeKeyFile, type StoredKey } from '../receive/key-file.ts'
import type { Keyring } from '../receive/keyring.ts'

/** What an agent needs; never `read`, `steps` or `admin`. */
const SCOPES = ['inference', 'feedback', 'train'] as const
/** Keys of the file from which on no more are created here: each request is compared with all of them. */
export const MOST_KEYS = 1_000
/** Keys of one maker that are valid at a time, and those that it may make in a minute. */
export const MOST_MADE = 50
export const MADE_PER_MINUTE = 5
const MINUTE_MS = 60_000
/** Time between two looks whether the key counts, ms; the keyring looks at the file once a second. */
const LOOK_MS = 50

type AgentKey = { id: string; token: string; scopes: readonly string[] }
/** `maker`: `ADMIN`, or a key with the scope admin. */
type Creation = {
  name: string
  maker: Key
  keyring: Pick<Keyring, 'locked' | 'named' | 'held'>
  now: number
  signal: AbortSignal
}

/**
 * The key has the limits and the expiry of its maker, and counts as long as that one does (keyring.ts). Resolves when it
 * counts. Throws `not_available` where there is no key file or no request needs a key, since the first
 * key would end that; `overloaded` at `MOST_KEYS` and `MOST_MADE`; `rate_limited`; `invalid_api_key` if the maker was revoked
 * meanwhile; `data_in_use`, `data_unreadable`.
 */
export const createAgentKey = async (file: string | null, creation: Creation): Promise<AgentKey> => {
  const { keyring, signal, maker } = creation
  if (file === null) throw new InstarError('not_available', 'This gateway has no file of API keys.')
  if (!keyring.locked())
    throw new InstarError(
      'not_available',
      'Requests need no API key here; the first one would end that (`instar keys add`).',
    )
  const made = await written(file, creation)
  while (keyring.named(made.id) === null) {
    if (maker !== ADMIN && keyring.held(maker) === null)
      throw new InstarError('invalid_api_key', `The API key ${maker.id} was revoked, and with it the key that it made.`)
    await delay(LOOK_MS, undefined, { signal })
  }
  return made
}

const written = async (file: string, { name, maker, now, signal }: Creation): Promise<AgentKey> => {
  const lock = await lockKeyFile(file, false, signal)
  try {
    const before = readKeyFile(file)
    checkNumber(before.keys, maker, now)
    const { key, token } = newKey(
      {
        name,
        scopes: SCOPES,
        created_by: maker.id,
        expires_at: maker.expiresAt === null ? null : new Date(maker.expiresAt).toISOString(),
        requests_per_minute: maker.requestsPerMinute,
        bytes_per_minute: maker.bytesPerMinute,
        concurrent: maker.concurrent,
      },
      now,
    )
    writeKeyFile(file, before, [...before.keys, key])
    return { id: key.id, token, scopes: key.scopes }
  } finally {
    lock?.close()
  }
}

const checkNumber = (keys: readonly StoredKey[], { id }: Key, now: number): void => {
  const made = keys.filter((key) => key.created_by === id)
  const valid = made.filter(({ expires_at: end }) => end === null || Date.parse(end) > now)
  if (keys.length >= MOST_KEYS || valid.length >= MOST_MADE)
    throw new InstarError(
      'overloaded',
      `There are ${keys.length} API keys, ${valid.length} of them made by ${id}; at most ${MOST_KEYS} and ${MOST_MADE} are allowed. \`instar keys revoke\` ends one.`,
    )
  const latest = made.map((key) => Date.parse(key.created_at)).filter((at) => at > now - MINUTE_MS && at <= now)
  if (latest.length >= MADE_PER_MINUTE)
    throw new InstarError('rate_limited', `${id} made ${latest.length} API keys in a minute, as many as it may.`, {
      retryAfterMs: Math.min(...latest) + MINUTE_MS - now,
    })
}
