import { InstarError } from '@instar/events/errors'
import { SCOPES, type Scope } from '@instar/gateway/keys'
import {
  KEY_NAME,
  lockKeyFile,
  newKey,
  readKeyFile,
  revokeForGood,
  writeKeyFile,
  type KeyFile,
  type StoredKey,
} from '@instar/gateway/key-file'
import { escapeControls } from '@instar/process/printable'
import { command, UsageError, type Invocation } from '../command.ts'
import { table } from '../table.ts'

const DAY_MS = 24 * 3600 * 1000
const HOUR_MS = 3600 * 1000
/** Default of --overlap. */
const OVERLAP_HOURS = 24

const OPTIONS = {
  scopes: { type: 'string', default: 'inference,feedback,train' },
  days: { type: 'string' },
  rpm: { type: 'string' },
  bytes: { type: 'string' },
  concurrent: { type: 'string' },
  overlap: { type: 'string' },
} as const

/** `argument`: NAME or ID; '' for list and open. `now`: ms since the epoch. */
type KeysInvocation = Pick<Invocation<typeof OPTIONS>, 'values' | 'print'> & {
  file: string
  keyFile: KeyFile
  argument: string
  now: number
}

const parseCount = (text: string | undefined, name: string): number | null => {
  if (text === undefined) return null
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new UsageError(`--${name} ${text} is not a whole number from 1 to 999999999`)
  return Number(text)
}

const parseScopes = (text: string): Scope[] =>
  text.split(',').map((name) => {
    const scope = SCOPES.find((one) => one === name.trim())
    if (!scope) throw new UsageError(`${name} is not a scope; the scopes are ${SCOPES.join(', ')}`)
    return scope
  })

/** The fields of a key without its hash. */
const publicFields = ({ sha256: _, ...key }: StoredKey) => key

const findKey = ({ file, keyFile, argument: id }: KeysInvocation): StoredKey => {
  const key = keyFile.keys.find((one) => one.id === id)
  if (!key) throw new InstarError('unknown_key', `${file} holds no key ${id}.`, { id })
  return key
}

const minuteOf = (isoTime: string): string => isoTime.slice(0, 16).replace('T', ' ')

const list = ({ keyFile: { keys }, print }: KeysInvocation): void =>
  print(keys.map(publicFields), () =>
    table(
      [
        { name: 'id', of: (key) => key.id },
        { name: 'name', of: (key) => key.name },
        { name: 'scopes', of: (key) => key.scopes.join(',') },
        { name: 'created', of: (key) => key.created_at.slice(0, 10) },
        { name: 'created by', of: (key) => key.created_by },
        { name: 'expires', of: (key) => (key.expires_at ? minuteOf(key.expires_at) : 'never') },
        { name: 'per minute', of: (key) => key.requests_per_minute },
        { name: 'at once', of: (key) => key.concurrent },
      ],
      keys,
    ),
  )

const open = ({ file, keyFile, print }: KeysInvocation): void => {
  const { length } = keyFile.keys
  if (length > 0) throw new UsageError(`${file} holds ${length} key${length === 1 ? '' : 's'}; revoke them first`)
  writeKeyFile(file, keyFile, [], true)
  print({ open: true }, () => 'the gateway serves this machine without a key\n')
}

const add = ({ file, keyFile, argument: name, values, now, print }: KeysInvocation): void => {
  if (!KEY_NAME.test(name)) throw new UsageError('NAME has 1 to 100 printable characters')
  const days = parseCount(values.days, 'days')
  const { key, token } = newKey(
    {
      name,
      scopes: parseScopes(values.scopes),
      expires_at: days === null ? null : new Date(now + days * DAY_MS).toISOString(),
      requests_per_minute: parseCount(values.rpm, 'rpm'),
      bytes_per_minute: parseCount(values.bytes, 'bytes'),
      concurrent: parseCount(values.concurrent, 'concurrent'),
    },
    now,
  )
  writeKeyFile(file, keyFile, [...keyFile.keys, key])
  print(
    { ...publicFields(key), token },
    () => `${token}\n\nkey ${key.id} (${key.scopes.join(', ')}); the token is not shown again\n`,
  )
}

const revoke = (invocation: KeysInvocation): void => {
  const { file, keyFile, print } = invocation
  const key = findKey(invocation)
  const made = keyFile.keys.filter((one) => one.created_by === key.id)
  const others = keyFile.keys.filter((one) => one !== key && !made.includes(one))
  for (const one of [key, ...made]) revokeForGood(file, one)
  try {
    writeKeyFile(file, keyFile, others)
  } catch (error) {
    // The key is revoked; whoever writes the file next leaves it out.
    if (!(error instanceof InstarError) || error.code !== 'data_in_use') throw error
  }
  const noKeyLeft =
    others.length > 0
      ? ''
      : '; no key is left: the gateway serves no request until `instar keys add` or `instar keys open`'
  const names = made.map(({ id, name }) => `${id} (${escapeControls(name)})`).join(', ')
  const withIt = made.length === 0 ? '' : `; with it ends the key that it made: ${names}`
  print(publicFields(key), () => `key ${key.id} (${escapeControls(key.name)}) is revoked${withIt}${noKeyLeft}\n`)
}

/** Of a file that an earlier build wrote. */
const printableName = (name: string): string => name.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?').slice(0, 100)

/** Creates a key with the rights of the old one, which expires after the overlap. */
const rotate = (invocation: KeysInvocation): void => {
  const { file, keyFile, values, now, print } = invocation
  const old = findKey(invocation)
  const overlapHours = parseCount(values.overlap, 'overlap') ?? OVERLAP_HOURS
  const overlapEnd = new Date(now + overlapHours * HOUR_MS).toISOString()
  if (old.expires_at !== null && Date.parse(old.expires_at) <= now)
    throw new UsageError(`key ${old.id} has expired, and so would its successor; \`instar keys add\` creates a new key`)
  const oldExpires = old.expires_at !== null && old.expires_at < overlapEnd ? old.expires_at : overlapEnd
  const { key, token } = newKey(
    {
      name: printableName(old.name),
      scopes: old.scopes,
      expires_at: old.expires_at,
      requests_per_minute: old.requests_per_minute,
      bytes_per_minute: old.bytes_per_minute ?? null,
      concurrent: old.concurrent,
      ...(old.created_by === undefined ? {} : { created_by: old.created_by }),
    },
    now,
  )
  const changed = (one: StoredKey): StoredKey => {
    if (one === old) return { ...one, expires_at: oldExpires }
    return one.created_by === old.id ? { ...one, created_by: key.id } : one
  }
  writeKeyFile(file, keyFile, [...keyFile.keys.map(changed), key])
  print(
    { ...publicFields(key), token },
    () => `${token}\n\nkey ${key.id} replaces ${old.id}, which expires ${minuteOf(oldExpires)} UTC\n`,
  )
}

const SUBCOMMANDS: Readonly<Record<string, { run(invocation: KeysInvocation): void; argument: boolean }>> = {
  list: { run: list, argument: false },
  add: { run: add, argument: true },
  revoke: { run: revoke, argument: true },
  rotate: { run: rotate, argument: true },
  open: { run: open, argument: false },
}

export default command('keys', {
  usage: 'list | add NAME | revoke ID | rotate ID | open',
  help: `
Manages the API keys of the gateway. Once there is a key, every request needs one, and the gateway may listen beyond
loopback. Requests still need a key after the last one is revoked or the file is deleted, until \`instar keys open\`. A
running gateway applies changes within a second. The token is shown once; the file (INSTAR_KEYS, default keys.json in
the data folder) holds its hash only. Commands that call the gateway send the key in INSTAR_KEY, which needs the scope
admin.

  list           print the keys
  add NAME       create a key
  revoke ID      remove a key, and those that it made on the dashboard
  rotate ID      create a key with the same rights; the old one expires after --overlap hours, and those that it made
                 are now the new one's
  open           serve without keys again: this machine, and other machines only with INSTAR_OPEN=1
  --scopes S     of inference, feedback, admin, train, read, steps (default inference,feedback,train)
  --days N       days until the key expires (default: never)
  --rpm N        requests per minute
  --concurrent N concurrent requests
  --bytes N      bytes of request bodies per minute
  --overlap N    hours (default ${OVERLAP_HOURS})

--json of list: an array of {id, name, scopes, created_at, created_by, expires_at, requests_per_minute,
bytes_per_minute, concurrent}, created_by only of keys made on the dashboard: a key's id, or "admin token"; of add and rotate: the same fields of the new key, with \`token\``,
  options: OPTIONS,
  overrides: ['data'],
  positionals: [1, 2],
  async run({ config, positionals: [name, argument], values, print, err, stop }) {
    const subcommand = Object.hasOwn(SUBCOMMANDS, name!) ? SUBCOMMANDS[name!] : undefined
    if (!subcommand) throw new UsageError(`unknown subcommand: keys ${name}`)
    if (!subcommand.argument && argument !== undefined) throw new UsageError(`unexpected argument: ${argument}`)
    if (subcommand.argument && argument === undefined)
      throw new UsageError(`keys ${name}: ${name === 'add' ? 'NAME' : 'ID'} is missing`)
    const file = config.keyFile
    // A key can be revoked without the lock: a process that holds the lock must not prevent it.
    using lock = name === 'list' ? null : await lockKeyFile(file, name === 'revoke', stop)
    if (name === 'revoke' && !lock)
      err(`${file}.lock is locked by another process; the key is revoked without the lock\n`)
    subcommand.run({ file, keyFile: readKeyFile(file), argument: argument ?? '', values, now: Date.now(), print })
  },
})
