/** Changes the file of API keys: under a lock, atomically, and only if no other process has changed it. */
import { InstarError } from '@instar/events/errors'
import { createHash, randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, openSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { tokenFor, type Scope } from './core/keys.ts'
import { addRevoked, markLocked, readKeyBytes, readRevoked } from './keyring.ts'

/** A key as the file stores it. `sha256`: of the whole token; the token itself is not stored. */
export type StoredKey = {
  id: string
  name: string
  sha256: string
  scopes: readonly Scope[]
  created_at: string
  /** The id of the key that made it, or that of `ADMIN`; absent or null: `instar keys`. */
  created_by?: string | null
  expires_at: string | null
  requests_per_minute: number | null
  bytes_per_minute?: number | null
  concurrent: number | null
}

/** A name of a key: one line of 1 to 100 characters that a terminal shows as they are. */
export const KEY_NAME = /^(?=.*\S)[^\p{C}\p{Zl}\p{Zp}]{1,100}$/u

/** A new key, and its token, of which the file holds the hash alone. `now`: ms since the epoch. */
export const newKey = (
  settings: Omit<StoredKey, 'id' | 'sha256' | 'created_at'>,
  now: number,
): { key: StoredKey; token: string } => {
  const id = randomBytes(6).toString('hex')
  const token = tokenFor(id, randomBytes(32).toString('base64url').replace(/[-_]/g, '0'))
  return {
    token,
    key: {
      ...settings,
      id,
      sha256: createHash('sha256').update(token).digest('hex'),
      created_at: new Date(now).toISOString(),
    },
  }
}

/** `bytes`: the content from which `keys` was read; null if there is no file. */
export type KeyFile = { keys: StoredKey[]; bytes: Buffer | null }

/** Throws `data_unreadable`. */
export const readKeyFile = (file: string): KeyFile => {
  const bytes = readBytes(file)
  if (bytes === null) return { keys: [], bytes }
  try {
    const { keys } = JSON.parse(bytes.toString('utf8')) as { keys?: StoredKey[] }
    const revoked = readRevoked(file)
    if (Array.isArray(keys)) return { keys: keys.filter(({ sha256 }) => !revoked.has(sha256)), bytes }
    throw new TypeError('the field keys is not an array')
  } catch (cause) {
    throw new InstarError('data_unreadable', `${file} is not a file of API keys.`, { file }, { cause })
  }
}

/** Null if there is no file. Throws `data_unreadable`. */
const readBytes = (file: string): Buffer | null => {
  try {
    return readKeyBytes(file)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new InstarError('data_unreadable', `${file} is not a file of API keys.`, { file }, { cause })
  }
}

/** SQLITE_BUSY. */
const BUSY = 5
const RETRY_MS = 25
const LOCK_TIMEOUT_MS = 10_000

/** Turns an error of the file system into `data_unreadable`. */
const changeFile = <T>(file: string, change: () => T): T => {
  try {
    return change()
  } catch (cause) {
    if (cause instanceof InstarError) throw cause
    throw new InstarError(
      'data_unreadable',
      `${file} cannot be changed: ${(cause as Error).message}`,
      { file },
      { cause },
    )
  }
}

/**
 * Creates the lock file with mode 0600: a process that can open the file can lock it and so prevent a key from being
 * revoked. A file that other users can open, as earlier builds made it, is replaced, since they may have it open.
 */
const createLockFile = (file: string): void => {
  const stats = statSync(file, { throwIfNoEntry: false })
  if (stats && (stats.mode & 0o077) !== 0) rmSync(file)
  closeSync(openSync(file, 'a', 0o600))
}

/**
 * Locks the key file until the returned database is closed or this process ends. Waits up to LOCK_TIMEOUT_MS; then
 * resolves with null if `optional`, else throws `data_in_use`. Throws `data_unreadable` if the lock file cannot be
 * created.
 */
export const lockKeyFile = async (
  file: string,
  optional: boolean,
  signal: AbortSignal,
): Promise<DatabaseSync | null> => {
  const lock = changeFile(file, () => {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    createLockFile(`${file}.lock`)
    return new DatabaseSync(`${file}.lock`, { timeout: 0 })
  })
  for (const deadline = performance.now() + LOCK_TIMEOUT_MS; ;) {
    try {
      lock.exec('BEGIN EXCLUSIVE')
      return lock
    } catch (cause) {
      const { errcode, message } = cause as Error & { errcode?: number }
      if (errcode !== BUSY || performance.now() > deadline) {
        lock.close()
        if (errcode === BUSY && optional) return null
        throw new InstarError(
          errcode === BUSY ? 'data_in_use' : 'data_unreadable',
          `${file}.lock cannot be locked: ${message}`,
          { file },
          { cause },
        )
      }
    }
    await delay(RETRY_MS, undefined, { signal })
  }
}

/** Revokes a key for good, before it is taken out of the file. Throws `data_unreadable`. */
export const revokeForGood = (file: string, { sha256 }: StoredKey): void =>
  changeFile(file, () => addRevoked(file, sha256))

/**
 * Replaces the file atomically, with mode 0600. `before`: what the file held when it was read; throws `data_in_use` if
 * it holds something else now. `open`: a gateway may serve without a key. Throws `data_unreadable`.
 */
export const writeKeyFile = (file: string, before: KeyFile, keys: readonly StoredKey[], open = false): void => {
  const next = `${file}.${process.pid}.new`
  changeFile(file, () => {
    writeFileSync(next, `${JSON.stringify({ keys, ...(open ? { open } : {}) }, null, 2)}\n`, {
      mode: 0o600,
      flush: true,
    })
    const current = readBytes(file)
    const unchanged = current === null ? before.bytes === null : before.bytes !== null && current.equals(before.bytes)
    if (!unchanged) {
      rmSync(next)
      throw new InstarError(
        'data_in_use',
        `Another process changed ${file} during this command; nothing is written. Run the command again.`,
        { file },
      )
    }
    renameSync(next, file)
    if (!open) markLocked(file)
  })
}
