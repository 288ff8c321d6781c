/** The file of API keys as the CLI changes it: under a lock, whole or not at all, and only over what was read. */
import { InstarError } from '@instar/events/errors'
import { markLocked } from '@instar/gateway/keyring'
import type { Scope } from '@instar/gateway/keys'
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'

/** As the file holds it: everything but the secret, of which only the hash of the whole token is kept. */
export type StoredKey = {
  id: string
  name: string
  sha256: string
  scopes: readonly Scope[]
  created_at: string
  expires_at: string | null
  requests_per_minute: number | null
  bytes_per_minute?: number | null
  concurrent: number | null
}

/** What the file holds, and its bytes: nothing is written over that was not read. */
export type KeyFile = { keys: StoredKey[]; bytes: Buffer | null }

export const readKeyFile = (file: string): KeyFile => {
  const bytes = bytesOf(file)
  if (bytes === null) return { keys: [], bytes }
  try {
    const { keys } = JSON.parse(bytes.toString('utf8')) as { keys?: StoredKey[] }
    if (Array.isArray(keys)) return { keys, bytes }
    throw new TypeError('it has no list of keys')
  } catch (cause) {
    throw new InstarError('data_unreadable', `${file} is not a file of API keys.`, { file }, { cause })
  }
}

const bytesOf = (file: string): Buffer | null => {
  try {
    return readFileSync(file)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new InstarError('data_unreadable', `${file} is not a file of API keys.`, { file }, { cause })
  }
}

const BUSY = 5
const LOOK_AGAIN_MS = 25
const WAIT_MS = 10_000

/** What the disk refuses is told as that. */
const changing = <T>(file: string, change: () => T): T => {
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
 * A file that its owner alone can open: whoever can open it can lock it, and so keep a key from being revoked. One that others
 * could open, as earlier builds made it, is taken away: they may have it open still.
 */
const ownFile = (file: string): void => {
  const there = statSync(file, { throwIfNoEntry: false })
  if (there && (there.mode & 0o077) !== 0) rmSync(file)
  closeSync(openSync(file, 'a', 0o600))
}

/**
 * Until it is closed no other process changes the file; a lock of the operating system, which ends with its process. Null where
 * somebody holds it for too long and `must` says that it is not to be waited for. Throws `data_in_use`, `data_unreadable`.
 */
export const lockKeyFile = async (file: string, must: boolean, signal: AbortSignal): Promise<DatabaseSync | null> => {
  const lock = changing(file, () => {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    ownFile(`${file}.lock`)
    return new DatabaseSync(`${file}.lock`, { timeout: 0 })
  })
  for (const until = performance.now() + WAIT_MS; ;) {
    try {
      lock.exec('BEGIN EXCLUSIVE')
      return lock
    } catch (cause) {
      const { errcode, message } = cause as Error & { errcode?: number }
      if (errcode !== BUSY || performance.now() > until) {
        lock.close()
        if (errcode === BUSY && must) return null
        throw new InstarError(
          errcode === BUSY ? 'data_in_use' : 'data_unreadable',
          `${file}.lock cannot be locked: ${message}`,
          { file },
          { cause },
        )
      }
    }
    await delay(LOOK_AGAIN_MS, undefined, { signal })
  }
}

/**
 * Whole or not at all, for its owner's eyes, and only over what was read. Throws `data_in_use` where another has
 * changed it meanwhile.
 */
export const writeKeyFile = (file: string, before: KeyFile, keys: readonly StoredKey[], open = false): void => {
  const next = `${file}.${process.pid}.new`
  changing(file, () => {
    writeFileSync(next, `${JSON.stringify({ keys, ...(open ? { open } : {}) }, null, 2)}\n`, { mode: 0o600 })
    const there = bytesOf(file)
    if (there === null ? before.bytes !== null : before.bytes === null || !there.equals(before.bytes)) {
      rmSync(next)
      throw new InstarError('data_in_use', `${file} was changed by another process meanwhile; nothing is written.`, {
        file,
      })
    }
    renameSync(next, file)
    if (!open) markLocked(file)
  })
}
