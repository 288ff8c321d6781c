import { InstarError } from '@instar/events/errors'
import { SCOPES, tokenFor, type Scope } from '@instar/gateway/core/keys'
import { randomBytes, createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { command, UsageError } from '../command.ts'
import { table } from '../table.ts'

/** As the file holds it: everything but the secret, of which only the hash of the whole token is kept. */
type Stored = { id: string; name: string; sha256: string; scopes: readonly Scope[]; created_at: string; expires_at: string | null; requests_per_minute: number | null; concurrent: number | null }

const DAY_MS = 24 * 3600 * 1000
/** How long the old key of a rotation goes on. */
const OVERLAP_HOURS = 24

const read = (file: string): Stored[] => {
  if (!existsSync(file)) return []
  try {
    const { keys } = JSON.parse(readFileSync(file, 'utf8')) as { keys?: Stored[] }
    if (Array.isArray(keys)) return keys
    throw new TypeError('it has no list of keys')
  } catch (cause) {
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
    throw new InstarError('data_unreadable', `${file} cannot be changed: ${(cause as Error).message}`, { file }, { cause })
  }
}

/** Until it is closed no other process changes the file; a lock of the operating system, which ends with its process. Throws `data_in_use`, `data_unreadable`. */
const lockFor = async (file: string, signal: AbortSignal): Promise<DatabaseSync> => {
  const lock = changing(file, () => {
    mkdirSync(dirname(file), { recursive: true })
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
        throw new InstarError(errcode === BUSY ? 'data_in_use' : 'data_unreadable', `${file}.lock cannot be locked: ${message}`, { file }, { cause })
      }
    }
    await delay(LOOK_AGAIN_MS, undefined, { signal })
  }
}

/** Whole or not at all; for its owner's eyes. */
const write = (file: string, keys: readonly Stored[]): void => {
  const next = `${file}.${process.pid}.new`
  changing(file, () => {
    writeFileSync(next, `${JSON.stringify({ keys }, null, 2)}\n`, { mode: 0o600 })
    renameSync(next, file)
  })
}

const mint = (settings: Omit<Stored, 'id' | 'sha256' | 'created_at'>, now: number): { key: Stored; token: string } => {
  const id = randomBytes(6).toString('hex')
  const token = tokenFor(id, randomBytes(32).toString('base64url').replace(/[-_]/g, '0'))
  return { token, key: { ...settings, id, sha256: createHash('sha256').update(token).digest('hex'), created_at: new Date(now).toISOString() } }
}

const count = (text: string | undefined, name: string): number | null => {
  if (text === undefined) return null
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new UsageError(`--${name} ${text} is not a number`)
  return Number(text)
}

const scopesOf = (text: string): Scope[] => text.split(',').map((name) => {
  const scope = SCOPES.find((one) => one === name.trim())
  if (!scope) throw new UsageError(`${name} is no scope; there are ${SCOPES.join(', ')}`)
  return scope
})

/** Without the hash: it is of no use to a person. */
const shown = ({ sha256: _, ...key }: Stored) => key

export default command('keys', {
  usage: 'list | add NAME | revoke ID | rotate ID',
  help: `
API keys of the gateway. With one key or more every request needs one, and the gateway may listen beyond loopback.
A running gateway hears of changes within a second. The token is shown once; the file (INSTAR_KEYS, default keys.json in
the data folder) holds its hash alone. Commands that ask the gateway show it the key in INSTAR_KEY, which needs the scope admin.

  add NAME       a new key
  revoke ID      it opens nothing any more
  rotate ID      a new key with the same rights; the old one goes on for --overlap hours
  --scopes S     of inference, feedback, admin, train, steps (default inference,feedback,train)
  --days N       it expires after so many days (default: never)
  --rpm N        requests a minute; --concurrent N  requests at once
  --overlap N    hours (default ${OVERLAP_HOURS})

--json: list: an array of {id, name, scopes, created_at, expires_at, requests_per_minute, concurrent}; add and rotate: that
of the new key, with \`token\`.`,
  options: { scopes: { type: 'string', default: 'inference,feedback,train' }, days: { type: 'string' }, rpm: { type: 'string' }, concurrent: { type: 'string' }, overlap: { type: 'string' } },
  overrides: ['data'],
  positionals: [1, 2],
  async run({ config, positionals: [what, which], values, answer, stop }) {
    if (!['list', 'add', 'revoke', 'rotate'].includes(what!)) throw new UsageError(`there is no \`keys ${what}\``)
    if (what === 'list' && which !== undefined) throw new UsageError(`not understood: ${which}`)
    const now = Date.now()
    const file = config.keyFile
    using _ = what === 'list' ? null : await lockFor(file, stop)
    const keys = read(file)
    if (what === 'list') {
      answer(keys.map(shown), () => table([
        { name: 'id', of: (key) => key.id }, { name: 'name', of: (key) => key.name }, { name: 'scopes', of: (key) => key.scopes.join(',') }, { name: 'created', of: (key) => key.created_at.slice(0, 10) },
        { name: 'expires', of: (key) => key.expires_at?.slice(0, 16).replace('T', ' ') ?? 'never' }, { name: 'per minute', of: (key) => key.requests_per_minute }, { name: 'at once', of: (key) => key.concurrent },
      ], keys))
      return
    }
    if (which === undefined) throw new UsageError(`${what} needs a name or an id`)
    if (what === 'add') {
      const days = count(values.days, 'days')
      const { key, token } = mint({ name: which, scopes: scopesOf(values.scopes), expires_at: days === null ? null : new Date(now + days * DAY_MS).toISOString(), requests_per_minute: count(values.rpm, 'rpm'), concurrent: count(values.concurrent, 'concurrent') }, now)
      write(file, [...keys, key])
      answer({ ...shown(key), token }, () => `${token}\n\nkey ${key.id} (${key.scopes.join(', ')}); the token is not shown again\n`)
      return
    }
    const found = keys.find(({ id }) => id === which)
    if (!found) throw new InstarError('unknown_key', `${file} holds no key ${which}.`, { id: which })
    if (what === 'revoke') {
      write(file, keys.filter((key) => key !== found))
      answer(shown(found), () => `key ${found.id} (${found.name}) is revoked\n`)
      return
    }
    const overlap = new Date(now + (count(values.overlap, 'overlap') ?? OVERLAP_HOURS) * 3600 * 1000).toISOString()
    const ends = found.expires_at !== null && found.expires_at < overlap ? found.expires_at : overlap
    if (found.expires_at !== null && Date.parse(found.expires_at) <= now) throw new UsageError(`key ${found.id} has expired: its successor would have, too; \`instar keys add\` makes a new one`)
    const { name, scopes, expires_at: expires, requests_per_minute: perMinute, concurrent } = found
    const { key, token } = mint({ name, scopes, expires_at: expires, requests_per_minute: perMinute, concurrent }, now)
    write(file, [...keys.map((one) => (one === found ? { ...one, expires_at: ends } : one)), key])
    answer({ ...shown(key), token }, () => `${token}\n\nkey ${key.id} takes over from ${found.id}, which ends ${ends.slice(0, 16).replace('T', ' ')} UTC\n`)
  },
})
