/**
 * The valid keys: those of the configuration and of the key file, which is read again when it changes, but for those whose
 * maker is none of them any more. A gateway that
 * ever had a key requires keys whatever happens to the file, also after a restart, until `instar keys open` changes
 * that.
 */
import { InstarError } from '@instar/events'
import { readRegularFile } from '@instar/events/regular-file'
import { createHash, timingSafeEqual } from 'node:crypto'
import { appendFileSync, closeSync, existsSync, openSync, readFileSync, rmSync, statSync, type Stats } from 'node:fs'
import { keyFile } from '../config.ts'
import { ADMIN, type Key } from './core/keys.ts'

export type Keyring = {
  /** Whether every request needs a key. */
  locked(): boolean
  /** Null if no key has this token. checkKey then decides what the key may do. */
  find(token: string): Key | null
  /** The key with this id; null: there is none. */
  named(id: string): Key | null
  /** The current state of a key, which may change while its request runs; null if it was revoked. */
  held(key: Key): Key | null
}

/** Minimum interval between checks of the file. */
export const LOOK_MS = 1000

/** `monotonic`: milliseconds on a clock that is never set: a revocation must not wait for one that was set back. */
export const createKeyring = (fixed: readonly Key[], file: string | null, monotonic: () => number): Keyring => {
  let state: KeyState = { keys: [], locked: false }
  let valid: readonly Key[] = fixed
  let stamp: string | null = null
  let lookedAt = Number.NEGATIVE_INFINITY

  const look = (): void => {
    if (file === null || monotonic() - lookedAt < LOOK_MS) return
    lookedAt = monotonic()
    const stat = statOf(file)
    const seen = [stat, statOf(revokedOf(file))].map((one) => one && `${one.ino} ${one.size} ${one.mtimeMs}`).join()
    if (seen === stamp) return
    const next = readKeyState(file)
    // Deleting the file, or the marker beside it, does not remove the lock.
    state = stat ? next : { ...next, locked: next.locked || state.locked }
    valid = withMakers([...fixed, ...state.keys])
    if (state.locked) markLocked(file)
    else if (stat) rmSync(markOf(file), { force: true })
    stamp = seen
  }
  const held = (): readonly Key[] => {
    try {
      look()
    } catch (error) {
      // While the file cannot be parsed, for example during a write, the previous keys stay valid.
      if (!(error instanceof InstarError)) throw error
    }
    return valid
  }
  look()
  return {
    locked: () => held().length > 0 || state.locked,
    find(token) {
      const hash = createHash('sha256').update(token).digest()
      return held().find(({ sha256 }) => timingSafeEqual(Buffer.from(sha256, 'hex'), hash)) ?? null
    },
    named: (id) => held().find((key) => key.id === id) ?? null,
    held: (key) => held().find(({ id, sha256 }) => id === key.id && sha256 === key.sha256) ?? null,
  }
}

/**
 * The keys whose makers are among them, back to one that no key made; each expires with its makers at the latest: what a file
 * says of it may be of a moment before its maker's expiry was changed.
 */
const withMakers = (keys: readonly Key[]): Key[] => {
  const byId = new Map(keys.map((key) => [key.id, key]))
  return keys.flatMap((key) => {
    let { expiresAt } = key
    const makers = new Set<string>()
    for (let made = key; ;) {
      const { createdBy = null } = made
      if (createdBy === null || createdBy === ADMIN.id)
        return [expiresAt === key.expiresAt ? key : { ...key, expiresAt }]
      const maker = byId.get(createdBy)
      if (!maker || makers.has(createdBy)) return []
      makers.add(createdBy)
      if (maker.expiresAt !== null) expiresAt = Math.min(expiresAt ?? Infinity, maker.expiresAt)
      made = maker
    }
  })
}

/** Undefined if there is no file. Throws `data_unreadable`. */
const statOf = (file: string): Stats | undefined => {
  try {
    return statSync(file, { throwIfNoEntry: false })
  } catch (cause) {
    throw new InstarError(
      'data_unreadable',
      `${file} cannot be looked at: ${(cause as Error).message.slice(0, 200)}`,
      { file },
      { cause },
    )
  }
}

/** `locked`: every request needs a key, even if no key is left. */
type KeyState = { keys: readonly Key[]; locked: boolean }

/** For a missing file, the marker tells whether there were keys before. Throws `data_unreadable`. */
export const readKeyState = (file: string): KeyState => {
  if (!statOf(file)) return { keys: [], locked: existsSync(markOf(file)) }
  try {
    const { keys, open } = keyFile.parse(JSON.parse(readKeyBytes(file).toString('utf8')))
    const revoked = readRevoked(file)
    return { keys: keys.filter(({ sha256 }) => !revoked.has(sha256)), locked: keys.length > 0 || !open }
  } catch (cause) {
    throw new InstarError(
      'data_unreadable',
      `${file} is not a file of API keys: ${(cause as Error).message.slice(0, 200)}`,
      { file },
      { cause },
    )
  }
}

/** Bytes of a key file at most: some 40,000 keys. */
export const MAX_KEY_FILE_BYTES = 16 << 20
/** Of the file of revoked keys, which only grows: some 2,000,000. */
const MAX_REVOKED_BYTES = 128 << 20

/** The content of a key file. Throws for one that is not a regular file, which might never end, or that is too large. */
export const readKeyBytes = (file: string): Buffer => readRegularFile(file, MAX_KEY_FILE_BYTES)

const revokedOf = (file: string): string => `${file}.revoked`

/**
 * The hashes of revoked keys. They stand in a file that only grows, so that no process that read the keys before a
 * revocation, and no older copy of the key file, brings a key back.
 */
export const readRevoked = (file: string): ReadonlySet<string> => {
  try {
    return new Set(readRegularFile(revokedOf(file), MAX_REVOKED_BYTES).toString('utf8').split('\n'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Set()
    throw error
  }
}

/**
 * `sha256`: of the key's token. Durable when it returns; other processes may append at the same time. A line that a crash
 * or a full disk cut off stays a line of its own.
 */
export const addRevoked = (file: string, sha256: string): void => {
  const torn = existsSync(revokedOf(file)) && !['', '\n'].includes(readFileSync(revokedOf(file), 'latin1').slice(-1))
  appendFileSync(revokedOf(file), `${torn ? '\n' : ''}${sha256}\n`, { mode: 0o600, flush: true })
}

/** An empty marker file beside the key file: there were keys. */
const markOf = (file: string): string => `${file}.locked`

/** If the folder is not writable, the key file cannot be deleted by mistake either, so the marker is not needed. */
export const markLocked = (file: string): void => {
  try {
    closeSync(openSync(markOf(file), 'a', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
  }
}
