/**
 * The keys that hold now: those of the configuration and of the key file, which is read again when it changes. A gateway that
 * had a key stays locked whatever becomes of the file, over restarts too, until `instar keys open` has said otherwise in it.
 */
import { InstarError } from '@instar/events'
import { createHash, timingSafeEqual } from 'node:crypto'
import { closeSync, existsSync, openSync, readFileSync, rmSync, statSync, type Stats } from 'node:fs'
import { keyFile } from '../config.ts'
import type { Key } from './core/keys.ts'

export type Keyring = {
  /** Whether every request needs a key. */
  locked(): boolean
  /** Null: the token is none of them. Whether it may do something is checkKey's to say. */
  find(token: string): Key | null
  /** The key as it is now, null once it is revoked: both may happen while its request runs. */
  held(key: Key): Key | null
}

/** How often at most the file is looked at. */
export const LOOK_MS = 1000

export const createKeyring = (fixed: readonly Key[], file: string | null, now: () => number): Keyring => {
  let state: KeyState = { keys: [], locked: false }
  let stamp: string | null = null
  let lookedAt = Number.NEGATIVE_INFINITY

  const look = (): void => {
    if (file === null || now() - lookedAt < LOOK_MS) return
    lookedAt = now()
    const stat = statOf(file)
    const seen = stat ? `${stat.ino} ${stat.size} ${stat.mtimeMs}` : ''
    if (seen === stamp) return
    const next = readKeyState(file)
    // Without the file, or the mark beside it, what was locked stays so.
    state = stat ? next : { ...next, locked: next.locked || state.locked }
    if (state.locked) markLocked(file)
    else if (stat) rmSync(markOf(file), { force: true })
    stamp = seen
  }
  const held = (): readonly Key[] => {
    try {
      look()
    } catch (error) {
      // Half a file opens no door and closes none: the keys of before hold until it can be read again.
      if (!(error instanceof InstarError)) throw error
    }
    return [...fixed, ...state.keys]
  }
  look()
  return {
    locked: () => held().length > 0 || state.locked,
    find(token) {
      const hash = createHash('sha256').update(token).digest()
      return held().find(({ sha256 }) => timingSafeEqual(Buffer.from(sha256, 'hex'), hash)) ?? null
    },
    held: (key) => held().find(({ id, sha256 }) => id === key.id && sha256 === key.sha256) ?? null,
  }
}

/** Undefined where there is no file. Throws `data_unreadable`. */
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

/** `locked`: every request needs a key, also where there is none any more. */
export type KeyState = { keys: readonly Key[]; locked: boolean }

/** Of a file that is not there: whether there were keys once. Throws `data_unreadable`. */
export const readKeyState = (file: string): KeyState => {
  if (!statOf(file)) return { keys: [], locked: existsSync(markOf(file)) }
  try {
    const { keys, open } = keyFile.parse(JSON.parse(readFileSync(file, 'utf8')))
    return { keys, locked: keys.length > 0 || !open }
  } catch (cause) {
    throw new InstarError(
      'data_unreadable',
      `${file} is not a file of API keys: ${(cause as Error).message.slice(0, 200)}`,
      { file },
      { cause },
    )
  }
}

/** An empty file beside the keys: there were some. */
const markOf = (file: string): string => `${file}.locked`

/** Where the folder cannot be written to, nobody can empty the file by mistake either. */
export const markLocked = (file: string): void => {
  try {
    closeSync(openSync(markOf(file), 'a', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
  }
}
