/** `instar keys` with a running gateway. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { setImmediate as turn } from 'node:timers/promises'
import { readSettings } from '@instar/process'
import { gatewayCheck } from '../doctor/local-checks.ts'
import { startRig, turnOf, USER } from '../../../test/kit/gateway.ts'
import { folder, instar, type CliResult } from '../../../test/kit/cli.ts'

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url))

type KeyResult = { id: string; token: string; scopes: string[]; expires_at: string | null }

test('a running gateway applies keys that are added, limited, rotated and revoked; the file holds no token', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-keys-'))
  const file = join(folder, 'keys.json')
  const keys = async (...args: string[]): Promise<unknown> => {
    const { code, json } = await instar(['keys', ...args, '--json'], { INSTAR_DATA: folder }, folder)
    assert.equal(code, 0)
    return json
  }
  let now = Date.now()
  const rig = await startRig({ settings: { keyFile: file }, ports: { now: () => now } })
  const call = (token?: string, path = '/v1/chat/completions'): Promise<Response> =>
    rig.fetch(path, {
      json: path.startsWith('/admin') ? {} : { model: 'policy', messages: [USER('Hello')] },
      ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }),
    })
  const reload = (): void => {
    now += 1001
  }
  try {
    assert.equal((await call()).status, 200)
    const first = (await keys('add', 'first')) as KeyResult
    assert.match(first.token, /^sk-instar-[0-9a-f]{12}-[A-Za-z0-9]{43}$/)
    reload()
    assert.deepEqual(
      [
        (await call()).status,
        (await call(first.token)).status,
        (await call(`${first.token}x`)).status,
        (await call(first.token, '/admin/thaw')).status,
      ],
      [401, 200, 401, 403],
    )
    assert.equal((await stat(file)).mode & 0o777, 0o600)
    assert.doesNotMatch(await readFile(file, 'utf8'), new RegExp(first.token.split('-').at(-1)!))

    const guest = (await keys('add', 'guest', '--scopes', 'inference', '--rpm', '2', '--days', '1')) as KeyResult
    reload()
    const answers = [await call(guest.token), await call(guest.token), await call(guest.token)]
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 429],
    )
    assert.equal(answers[2]!.headers.get('retry-after'), '30')
    const turn = await turnOf(rig.log, answers[0]!.headers.get('x-instar-turn-id'))
    assert.deepEqual([turn.key, turn.trainable, turn.reason], [guest.id, false, 'opted_out'])

    const rotated = (await keys('rotate', first.id, '--overlap', '1')) as KeyResult
    reload()
    assert.deepEqual([(await call(first.token)).status, (await call(rotated.token)).status], [200, 200])
    now += 2 * 3600 * 1000
    assert.deepEqual([(await call(first.token)).status, (await call(rotated.token)).status], [401, 200])
    await keys('revoke', rotated.id)
    reload()
    assert.equal((await call(rotated.token)).status, 401)
    assert.deepEqual(
      ((await keys('list')) as KeyResult[]).map(({ id }) => id),
      [first.id, guest.id],
    )

    const before = await readFile(file)
    await writeFile(file, '{"keys": [')
    reload()
    assert.equal((await call(guest.token)).status, 200)
    await writeFile(file, before)
  } finally {
    await rig.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

test('commands send the key in INSTAR_KEY; without one the gateway check of doctor is unsure', async () => {
  const data = folder()
  const addKey = async (scopes: string): Promise<string> =>
    ((await instar(['keys', 'add', 'me', '--scopes', scopes, '--json'], { INSTAR_DATA: data })).json as KeyResult).token
  const [admin, guest] = [await addKey('admin'), await addKey('inference')]
  const rig = await startRig({ settings: { keyFile: join(data, 'keys.json') } })
  const env = { INSTAR_DATA: data, INSTAR_PORT: new URL(rig.url).port }
  const run = async (args: readonly string[], key: string): Promise<[number, string | undefined]> => {
    const { code, json } = await instar([...args, '--json'], { ...env, INSTAR_KEY: key })
    return [code, (json as { error?: { code: string } }).error?.code]
  }
  try {
    for (const args of [
      ['thaw'],
      ['rollback', '7'],
      ['promote', 'b'],
      ['replay', '--branch', 'b'],
      ['doctor', 'agent'],
    ]) {
      assert.deepEqual(await run(args, ''), [1, 'invalid_api_key'], args.join(' '))
      assert.deepEqual(await run(args, guest), [1, 'missing_scope'], args.join(' '))
    }
    for (const args of [['thaw'], ['rollback', '7']])
      assert.deepEqual(await run(args, admin), [1, 'no_line'], args.join(' '))
    assert.deepEqual(await run(['doctor', 'agent'], admin), [0, undefined])
    const [refused] = await gatewayCheck.run(readSettings(env, '/'))
    assert.deepEqual([refused?.level, refused?.todo?.includes('INSTAR_KEY')], ['unsure', true])
    assert.match(refused!.found, /^http:\/\/127\.0\.0\.1:\d+ answers, but its status needs an API key/)
  } finally {
    await rig.stop()
  }
})

test('without keys a command sends the admin token of its data folder or of INSTAR_ADMIN_TOKEN; without one it is refused', async () => {
  const [data, otherData] = [folder(), folder()]
  const rig = await startRig({ settings: { adminToken: null, adminTokenFile: join(data, 'admin.token') } })
  const INSTAR_PORT = new URL(rig.url).port
  const errorCode = async (env: Record<string, string>): Promise<string | undefined> =>
    ((await instar(['thaw', '--json'], { INSTAR_PORT, ...env })).json as { error?: { code: string } }).error?.code
  try {
    assert.equal((await stat(join(data, 'admin.token'))).mode & 0o777, 0o600)
    const token = (await readFile(join(data, 'admin.token'), 'utf8')).trim()
    const accepted: Record<string, string>[] = [
      { INSTAR_DATA: data },
      { INSTAR_DATA: data, INSTAR_KEY: 'sk-old' },
      { INSTAR_DATA: otherData, INSTAR_ADMIN_TOKEN: token },
      { INSTAR_DATA: otherData, INSTAR_ADMIN_TOKEN_FILE: join(data, 'admin.token') },
    ]
    for (const env of accepted) {
      assert.equal(await errorCode(env), 'no_line', JSON.stringify(Object.keys(env)))
    }
    const refused: Record<string, string>[] = [
      { INSTAR_DATA: otherData },
      { INSTAR_DATA: otherData, INSTAR_ADMIN_TOKEN: `${token}x` },
    ]
    for (const env of refused) assert.equal(await errorCode(env), 'invalid_api_key')
    assert.equal(await errorCode({ INSTAR_DATA: otherData, INSTAR_ADMIN_TOKEN: 'short' }), 'bad_request')
    await chmod(join(data, 'admin.token'), 0o644)
    assert.equal(await errorCode({ INSTAR_DATA: data }), 'file_not_private')
    assert.equal(await errorCode({ INSTAR_DATA: data, INSTAR_ADMIN_TOKEN: token }), 'no_line')
  } finally {
    await rig.stop()
  }
})

test('a command waits while another one changes the file; an expired key cannot be rotated', async () => {
  const data = folder()
  const file = join(data, 'keys.json')
  const stored = (id: string, expires: string | null): object => ({
    id,
    name: id,
    sha256: '0'.repeat(64),
    scopes: ['inference'],
    created_at: new Date().toISOString(),
    expires_at: expires,
    requests_per_minute: null,
    concurrent: null,
  })
  await writeFile(`${file}.lock`, '', { mode: 0o600 })
  const lock = new DatabaseSync(`${file}.lock`)
  lock.exec('BEGIN EXCLUSIVE')
  const adding = instar(['keys', 'add', 'later', '--json'], { INSTAR_DATA: data })
  await turn()
  await writeFile(
    file,
    JSON.stringify({ keys: [stored('first', null), stored('over', new Date(Date.now() - 1000).toISOString())] }),
  )
  lock.close()
  assert.equal((await adding).code, 0)
  const listed = (await instar(['keys', 'list', '--json'], { INSTAR_DATA: data })).json as { name: string }[]
  assert.deepEqual(
    listed.map(({ name }) => name),
    ['first', 'over', 'later'],
  )
  const rotated = await instar(['keys', 'rotate', 'over'], { INSTAR_DATA: data })
  assert.notEqual(rotated.code, 0)
  assert.match(rotated.err, /key over has expired/)
})

test('a gateway stays closed after its last key is revoked or the file is deleted, also after a restart, until `keys open`; /health/ready answers', async () => {
  const data = folder()
  const file = join(data, 'keys.json')
  const keys = (...args: string[]): Promise<CliResult> => instar(['keys', ...args, '--json'], { INSTAR_DATA: data })
  const { id } = (await keys('add', 'one')).json as KeyResult
  let now = Date.now()
  const start = (): ReturnType<typeof startRig> =>
    startRig({ settings: { host: '0.0.0.0', open: true, keyFile: file, adminToken: null }, ports: { now: () => now } })
  const reload = (): void => {
    now += 1001
  }
  let rig = await start()
  const statusOf = async (path: string): Promise<number> =>
    (await fetch(`http://127.0.0.1:${new URL(rig.url).port}${path}`)).status
  const restart = async (): Promise<void> => {
    await rig.stop()
    rig = await start()
  }
  try {
    assert.equal(await statusOf('/v1/models'), 401)
    assert.equal((await keys('open')).code, 2, 'the file holds a key')
    assert.equal((await keys('revoke', id)).code, 0)
    reload()
    assert.deepEqual(
      [
        await statusOf('/v1/models'),
        await statusOf('/admin/status'),
        await statusOf('/metrics'),
        await statusOf('/health/ready'),
      ],
      [401, 401, 401, 200],
    )
    await restart()
    assert.equal(await statusOf('/v1/models'), 401, 'after a restart')
    for (const emptied of ['{"keys": []}', '']) {
      await writeFile(file, emptied)
      reload()
      assert.equal(await statusOf('/v1/models'), 401, emptied)
    }
    await rm(file)
    reload()
    assert.equal(await statusOf('/v1/models'), 401, 'without the file')
    await restart()
    assert.equal(await statusOf('/v1/models'), 401, 'without the file, after a restart')
    assert.deepEqual((await keys('open')).json, { open: true })
    reload()
    assert.equal(await statusOf('/v1/models'), 200)
    await restart()
    assert.equal(await statusOf('/v1/models'), 200)
    await rm(file)
    reload()
    assert.equal(await statusOf('/v1/models'), 200)
    await keys('add', 'two')
    reload()
    assert.equal(await statusOf('/v1/models'), 401)
  } finally {
    await rig.stop()
  }
})

test('a gateway that had keys at its start stays closed after the file is deleted, also after a restart', async () => {
  const data = folder()
  const file = join(data, 'keys.json')
  await writeFile(
    file,
    JSON.stringify({ keys: [{ id: 'one', sha256: '0'.repeat(64), created_at: new Date().toISOString() }] }),
  )
  for (const first of [true, false]) {
    const rig = await startRig({ settings: { keyFile: file } })
    try {
      assert.equal((await rig.fetch('/v1/models')).status, 401)
    } finally {
      await rig.stop()
    }
    if (first) await rm(file)
  }
})

test('the lock file has mode 0600; a held lock does not prevent a key from being revoked', async () => {
  const data = folder()
  const file = join(data, 'keys.json')
  await writeFile(`${file}.lock`, '', { mode: 0o644 })
  const foreign = new DatabaseSync(`${file}.lock`, { readOnly: true })
  foreign.exec('BEGIN; SELECT * FROM sqlite_schema')
  const keys = (...args: string[]): Promise<CliResult> => instar(['keys', ...args, '--json'], { INSTAR_DATA: data })
  const key = (await keys('add', 'one')).json as KeyResult
  assert.equal((await stat(`${file}.lock`)).mode & 0o777, 0o600)
  foreign.close()
  const held = new DatabaseSync(`${file}.lock`)
  held.exec('BEGIN EXCLUSIVE')
  try {
    const [revoked, added] = await Promise.all([keys('revoke', key.id), keys('add', 'two')])
    assert.deepEqual([revoked.code, (revoked.json as KeyResult).id, added.code], [0, key.id, 1])
    assert.match(revoked.err, /revoked without the lock/)
    assert.deepEqual((await keys('list')).json, [])
  } finally {
    held.close()
  }
})

test('errors of the file system, a file that holds no keys, and unknown subcommands have errors of their own', async () => {
  const data = folder()
  const file = join(data, 'keys.json')
  const run = async (args: readonly string[], keys: string): Promise<[number, string]> => {
    const { code, err } = await instar(['keys', ...args], { INSTAR_DATA: data, INSTAR_KEYS: keys })
    return [code, err.split('\n')[0]!]
  }
  await writeFile(file, '{}')
  for (const args of [['list'], ['add', 'x']])
    assert.deepEqual(await run(args, file), [1, `instar keys: data_unreadable: ${file} is not a file of API keys.`])
  const [code, err] = await run(['add', 'x'], join(file, 'keys.json'))
  assert.deepEqual(
    [code, err.startsWith(`instar keys: data_unreadable: ${file}/keys.json cannot be changed: `)],
    [1, true],
  )
  await rm(file)
  await mkdir(`${file}.${process.pid}.new`)
  assert.match((await run(['add', 'x'], file))[1], /^instar keys: data_unreadable: .* cannot be changed: EISDIR/)
  assert.deepEqual(await run(['remove', 'x'], file), [2, 'instar keys: unknown subcommand: keys remove'])
  assert.deepEqual(await run(['list', 'x'], file), [2, 'instar keys: unexpected argument: x'])
  for (const name of ['', ' ', 'a\nb', '\u001b[2J', 'x'.repeat(101)])
    assert.deepEqual(await run(['add', name], file), [2, 'instar keys: NAME has 1 to 100 printable characters'])
})

test('a revoked key stays revoked when a process that had read the keys before, or a copy, writes them again', async (t) => {
  const data = folder()
  const file = join(data, 'keys.json')
  const keys = async (...args: string[]): Promise<unknown> =>
    (await instar(['keys', ...args, '--json'], { INSTAR_DATA: data }, data)).json
  const [lost, kept] = [(await keys('add', 'lost')) as KeyResult, (await keys('add', 'kept')) as KeyResult]
  let now = Date.now()
  const rig = await startRig({ settings: { keyFile: file }, ports: { now: () => now } })
  t.after(() => rig.stop())
  const status = async ({ token }: KeyResult): Promise<number> => {
    now += 1001
    return (await rig.fetch('/v1/models', { headers: { authorization: `Bearer ${token}` } })).status
  }
  assert.deepEqual([await status(lost), await status(kept)], [200, 200])
  const before = await readFile(file)
  await keys('revoke', lost.id)
  await writeFile(file, before)
  assert.deepEqual([await status(lost), await status(kept)], [401, 200])
  assert.deepEqual(
    ((await keys('list')) as KeyResult[]).map(({ id }) => id),
    [kept.id],
  )
  await keys('add', 'third')
  assert.doesNotMatch(await readFile(file, 'utf8'), new RegExp(lost.id))
})

test('processes that add, rotate and revoke at once, one of them killed, lose no key, tear no file and undo no revocation', async (t) => {
  const data = folder()
  const file = join(data, 'keys.json')
  const add = async (name: string): Promise<KeyResult> =>
    (await instar(['keys', 'add', name, '--json'], { INSTAR_DATA: data }, data)).json as KeyResult
  const [lost, old] = [await add('lost'), await add('old')]
  let now = Date.now()
  const rig = await startRig({ settings: { keyFile: file }, ports: { now: () => now } })
  t.after(() => rig.stop())
  const run = (...args: string[]) => {
    const child = spawn(process.execPath, [MAIN, 'keys', ...args, '--json'], {
      env: { ...process.env, INSTAR_DATA: data },
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const json = async (): Promise<KeyResult | null> => {
      const [out, [code]] = await Promise.all([text(child.stdout), once(child, 'close')])
      return code === 0 ? (JSON.parse(out) as KeyResult) : null
    }
    return { child, result: json() }
  }
  const runs = [run('revoke', lost.id), run('rotate', old.id), run('add', 'a'), run('add', 'b')]
  const killed = run('add', 'killed')
  await Promise.race(runs.map(({ result }) => result))
  killed.child.kill('SIGKILL')
  const done = await Promise.all(runs.map(({ result }) => result))
  await killed.result
  assert.ok(done.every((result) => result !== null))
  const stored = JSON.parse(await readFile(file, 'utf8')) as { keys: { id: string; name: string }[] }
  const ids = stored.keys.filter(({ name }) => name !== 'killed').map(({ id }) => id)
  assert.deepEqual(new Set(ids), new Set([old.id, ...done.slice(1).map((result) => result!.id)]))
  now += 1001
  const status = async ({ token }: KeyResult): Promise<number> =>
    (await rig.fetch('/v1/models', { headers: { authorization: `Bearer ${token}` } })).status
  assert.equal(await status(lost), 401)
  for (const one of [old, ...done.slice(1)]) assert.equal(await status(one!), 200)
})
