/** Creates an API key for an agent, for the snippets of the first page. Its token is given once. */
import { InstarError } from '@instar/events'
import { setTimeout as delay } from 'node:timers/promises'
import { lockKeyFile, newKey, readKeyFile, writeKeyFile } from '../receive/key-file.ts'
import type { Keyring } from '../receive/keyring.ts'

/** What an agent needs; never `read`, `steps` or `admin`. */
const SCOPES = ['inference', 'feedback', 'train'] as const
/** Keys of the file from which on no more are created here: each request is compared with all of them. */
export const MOST_KEYS = 1_000
/** Time between two looks whether the key counts, ms; the keyring looks at the file once a second. */
const LOOK_MS = 50

type AgentKey = { id: string; token: string; scopes: readonly string[] }
type Creation = { name: string; keyring: Pick<Keyring, 'locked' | 'named'>; now: number; signal: AbortSignal }

/**
 * Resolves when the key counts. Throws `not_available` where there is no key file or no request needs a key, since the first
 * key would end that; `overloaded` at `MOST_KEYS`; `data_in_use`, `data_unreadable`.
 */
export const createAgentKey = async (file: string | null, creation: Creation): Promise<AgentKey> => {
  const { keyring, signal } = creation
  if (file === null) throw new InstarError('not_available', 'This gateway has no file of API keys.')
  if (!keyring.locked())
    throw new InstarError(
      'not_available',
      'Requests need no API key here; the first one would end that (`instar keys add`).',
    )
  const made = await written(file, creation)
  while (keyring.named(made.id) === null) await delay(LOOK_MS, undefined, { signal })
  return made
}

const written = async (file: string, { name, now, signal }: Creation): Promise<AgentKey> => {
  const lock = await lockKeyFile(file, false, signal)
  try {
    const before = readKeyFile(file)
    if (before.keys.length >= MOST_KEYS)
      throw new InstarError('overloaded', `There are ${MOST_KEYS} API keys; revoke some (\`instar keys revoke\`).`)
    const limits = { expires_at: null, requests_per_minute: null, bytes_per_minute: null, concurrent: null }
    const { key, token } = newKey({ name, scopes: SCOPES, ...limits }, now)
    writeKeyFile(file, before, [...before.keys, key])
    return { id: key.id, token, scopes: key.scopes }
  } finally {
    lock?.close()
  }
}
