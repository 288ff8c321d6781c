/** The keys that hold now: those of the configuration and of the key file, which is read again when it changes. */
import { InstarError } from '@instar/events'
import { createHash, timingSafeEqual } from 'node:crypto'
import { readFileSync, statSync, type Stats } from 'node:fs'
import { keyFile } from '../config.ts'
import { checkKey, take, type Bucket, type Key, type Scope } from '../core/keys.ts'

export type Keyring = {
  /** Whether there is any: then every request needs one. */
  locked(): boolean
  /** Throws `invalid_api_key`. */
  find(token: string | null, scope: Scope | null): Key
  /** Counts a request; the returned function ends it. Throws `rate_limited`. */
  enter(key: Key): () => void
}

/** How often at most the file is looked at. */
const LOOK_MS = 1000

export const createKeyring = (fixed: readonly Key[], file: string | null, now: () => number): Keyring => {
  let listed: readonly Key[] = []
  let stamp = ''
  let lookedAt = Number.NEGATIVE_INFINITY
  const buckets = new Map<string, Bucket>()
  const running = new Map<string, number>()

  const look = (): void => {
    if (file === null || now() - lookedAt < LOOK_MS) return
    lookedAt = now()
    const stat = statOf(file)
    const seen = stat ? `${stat.ino} ${stat.size} ${stat.mtimeMs}` : ''
    if (seen === stamp) return
    if (stat) listed = readKeys(file)
    stamp = seen
  }
  const all = (): readonly Key[] => {
    try {
      look()
    } catch (error) {
      // Half a file opens no door and closes none: the keys of before hold until it can be read again.
      if (!(error instanceof InstarError)) throw error
    }
    return [...fixed, ...listed]
  }
  look()
  return {
    locked: () => all().length > 0,
    find(token, scope) {
      const hash = createHash('sha256').update(token ?? '').digest()
      const key = token === null ? undefined : all().find(({ sha256 }) => timingSafeEqual(Buffer.from(sha256, 'hex'), hash))
      if (!key) throw new InstarError('invalid_api_key', token === null ? 'You did not send an API key.' : 'The API key is not one of this gateway.')
      checkKey(key, scope, now())
      return key
    },
    enter(key) {
      if (key.requestsPerMinute !== null) {
        const taken = take(buckets.get(key.id) ?? null, key.requestsPerMinute, now())
        if ('waitMs' in taken) throw new InstarError('rate_limited', `The API key ${key.id} may send ${key.requestsPerMinute} requests a minute.`, { retryAfterMs: taken.waitMs })
        buckets.set(key.id, taken.bucket)
      }
      const before = running.get(key.id) ?? 0
      if (key.concurrent !== null && before >= key.concurrent) throw new InstarError('rate_limited', `The API key ${key.id} may have ${key.concurrent} requests at once.`, { retryAfterMs: 1000 })
      running.set(key.id, before + 1)
      let over = false
      return () => {
        if (over) return
        over = true
        running.set(key.id, (running.get(key.id) ?? 1) - 1)
      }
    },
  }
}

/** Undefined where there is no file. Throws `data_unreadable`. */
const statOf = (file: string): Stats | undefined => {
  try {
    return statSync(file, { throwIfNoEntry: false })
  } catch (cause) {
    throw new InstarError('data_unreadable', `${file} cannot be looked at: ${(cause as Error).message.slice(0, 200)}`, { file }, { cause })
  }
}

/** Throws `data_unreadable`. */
export const readKeys = (file: string): Key[] => {
  try {
    return keyFile.parse(JSON.parse(readFileSync(file, 'utf8'))).keys
  } catch (cause) {
    throw new InstarError('data_unreadable', `${file} is not a file of API keys: ${(cause as Error).message.slice(0, 200)}`, { file }, { cause })
  }
}
