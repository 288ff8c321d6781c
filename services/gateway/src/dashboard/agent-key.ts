/** Creates an API key for an agent, for the snippets of the first page. Its token is given once. */
import { InstarError } from '@instar/events'
import { lockKeyFile, newKey, readKeyFile, writeKeyFile } from '../receive/key-file.ts'

/** What an agent needs; never `read`, `steps` or `admin`. */
const SCOPES = ['inference', 'feedback', 'train'] as const
/** Keys of the file from which on no more are created here: each request is compared with all of them. */
export const MOST_KEYS = 1_000

type AgentKey = { id: string; token: string; scopes: readonly string[] }

/**
 * `locked`: requests need a key. Throws `not_available` where there is no key file or no request needs a key, since the first
 * key would end that; `overloaded` at `MOST_KEYS`; `data_in_use`, `data_unreadable`.
 */
export const createAgentKey = async (
  file: string | null,
  { name, locked, now, signal }: { name: string; locked: boolean; now: number; signal: AbortSignal },
): Promise<AgentKey> => {
  if (file === null) throw new InstarError('not_available', 'This gateway has no file of API keys.')
  if (!locked)
    throw new InstarError(
      'not_available',
      'Requests need no API key here; the first one would end that (`instar keys add`).',
    )
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
