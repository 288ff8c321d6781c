import { InstarError } from '@instar/events/errors'
import { SCOPES, tokenFor, type Scope } from '@instar/gateway/keys'
import { randomBytes, createHash } from 'node:crypto'
import { command, UsageError } from '../command.ts'
import { lockKeyFile, readKeyFile, writeKeyFile, type StoredKey } from '../key-file.ts'
import { table } from '../table.ts'

const DAY_MS = 24 * 3600 * 1000
/** How long the old key of a rotation goes on. */
const OVERLAP_HOURS = 24

const mint = (
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

const count = (text: string | undefined, name: string): number | null => {
  if (text === undefined) return null
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new UsageError(`--${name} ${text} is not a number`)
  return Number(text)
}

const scopesOf = (text: string): Scope[] =>
  text.split(',').map((name) => {
    const scope = SCOPES.find((one) => one === name.trim())
    if (!scope) throw new UsageError(`${name} is no scope; there are ${SCOPES.join(', ')}`)
    return scope
  })

/** Without the hash: it is of no use to a person. */
const shown = ({ sha256: _, ...key }: StoredKey) => key

export default command('keys', {
  usage: 'list | add NAME | revoke ID | rotate ID | open',
  help: `
API keys of the gateway. With one key or more every request needs one, and the gateway may listen beyond loopback. It stays so
when the last one is revoked, or the file is gone: \`instar keys open\` alone lets a gateway that had keys do without.
A running gateway hears of changes within a second. The token is shown once; the file (INSTAR_KEYS, default keys.json in
the data folder) holds its hash alone. Commands that ask the gateway show it the key in INSTAR_KEY, which needs the scope admin.

  add NAME       a new key
  revoke ID      it opens nothing any more
  rotate ID      a new key with the same rights; the old one goes on for --overlap hours
  open           without keys the gateway is open again: to this machine, and beyond it only with INSTAR_OPEN=1
  --scopes S     of inference, feedback, admin, train, steps (default inference,feedback,train)
  --days N       it expires after so many days (default: never)
  --rpm N        requests a minute; --concurrent N  requests at once; --bytes N  bytes of bodies a minute
  --overlap N    hours (default ${OVERLAP_HOURS})

--json: list: an array of {id, name, scopes, created_at, expires_at, requests_per_minute,
bytes_per_minute, concurrent}; add and rotate: that
of the new key, with \`token\`.`,
  options: {
    scopes: { type: 'string', default: 'inference,feedback,train' },
    days: { type: 'string' },
    rpm: { type: 'string' },
    bytes: { type: 'string' },
    concurrent: { type: 'string' },
    overlap: { type: 'string' },
  },
  overrides: ['data'],
  positionals: [1, 2],
  async run({ config, positionals: [what, which], values, answer, err, stop }) {
    if (!['list', 'add', 'revoke', 'rotate', 'open'].includes(what!))
      throw new UsageError(`there is no \`keys ${what}\``)
    if ((what === 'list' || what === 'open') && which !== undefined) throw new UsageError(`not understood: ${which}`)
    const now = Date.now()
    const file = config.keyFile
    using lock = what === 'list' ? null : await lockKeyFile(file, what === 'revoke', stop)
    if (what === 'revoke' && !lock) err(`somebody holds ${file}.lock; revoked without it\n`)
    const held = readKeyFile(file)
    const { keys } = held
    if (what === 'list') {
      answer(keys.map(shown), () =>
        table(
          [
            { name: 'id', of: (key) => key.id },
            { name: 'name', of: (key) => key.name },
            { name: 'scopes', of: (key) => key.scopes.join(',') },
            { name: 'created', of: (key) => key.created_at.slice(0, 10) },
            { name: 'expires', of: (key) => key.expires_at?.slice(0, 16).replace('T', ' ') ?? 'never' },
            { name: 'per minute', of: (key) => key.requests_per_minute },
            { name: 'at once', of: (key) => key.concurrent },
          ],
          keys,
        ),
      )
      return
    }
    if (what === 'open') {
      if (keys.length > 0)
        throw new UsageError(`${file} holds ${keys.length} key${keys.length === 1 ? '' : 's'}: revoke them first`)
      writeKeyFile(file, held, [], true)
      answer({ open: true }, () => 'without keys the gateway is open to this machine\n')
      return
    }
    if (which === undefined) throw new UsageError(`${what} needs a name or an id`)
    if (what === 'add') {
      const days = count(values.days, 'days')
      const { key, token } = mint(
        {
          name: which,
          scopes: scopesOf(values.scopes),
          expires_at: days === null ? null : new Date(now + days * DAY_MS).toISOString(),
          requests_per_minute: count(values.rpm, 'rpm'),
          bytes_per_minute: count(values.bytes, 'bytes'),
          concurrent: count(values.concurrent, 'concurrent'),
        },
        now,
      )
      writeKeyFile(file, held, [...keys, key])
      answer(
        { ...shown(key), token },
        () => `${token}\n\nkey ${key.id} (${key.scopes.join(', ')}); the token is not shown again\n`,
      )
      return
    }
    const found = keys.find(({ id }) => id === which)
    if (!found) throw new InstarError('unknown_key', `${file} holds no key ${which}.`, { id: which })
    if (what === 'revoke') {
      writeKeyFile(
        file,
        held,
        keys.filter((key) => key !== found),
      )
      const last =
        keys.length === 1 ? '; no key is left, and nothing is served until `instar keys add` or `instar keys open`' : ''
      answer(shown(found), () => `key ${found.id} (${found.name}) is revoked${last}\n`)
      return
    }
    const overlap = new Date(now + (count(values.overlap, 'overlap') ?? OVERLAP_HOURS) * 3600 * 1000).toISOString()
    const ends = found.expires_at !== null && found.expires_at < overlap ? found.expires_at : overlap
    if (found.expires_at !== null && Date.parse(found.expires_at) <= now)
      throw new UsageError(
        `key ${found.id} has expired: its successor would have, too; \`instar keys add\` makes a new one`,
      )
    const {
      name,
      scopes,
      expires_at: expires,
      requests_per_minute: perMinute,
      bytes_per_minute: bytesPerMinute = null,
      concurrent,
    } = found
    const { key, token } = mint(
      {
        name,
        scopes,
        expires_at: expires,
        requests_per_minute: perMinute,
        bytes_per_minute: bytesPerMinute,
        concurrent,
      },
      now,
    )
    writeKeyFile(file, held, [...keys.map((one) => (one === found ? { ...one, expires_at: ends } : one)), key])
    answer(
      { ...shown(key), token },
      () =>
        `${token}\n\nkey ${key.id} takes over from ${found.id}, which ends ${ends.slice(0, 16).replace('T', ' ')} UTC\n`,
    )
  },
})
