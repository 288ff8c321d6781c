/** Keys that an admin key, or the admin token, makes for agents: who made them, their limits, their number, their end. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { sha256, startRig, USER } from '../../../../test/kit/gateway.ts'
import { instar } from '../../../../test/kit/cli.ts'
import type { StoredKey } from '../receive/key-file.ts'
import { MADE_PER_MINUTE, MOST_MADE } from './agent-key.ts'

const tokenOf = (id: string): string => `sk-instar-${id}-secret`
const fixed = (id: string, rest: object = {}) => ({
  id,
  sha256: sha256(Buffer.from(tokenOf(id))),
  scopes: ['admin' as const],
  ...rest,
})

const start = async (t: TestContext, rest: object = {}) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-agent-key-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'keys.json')
  let passed = 0
  const now = (): number => Date.now() + passed
  const rig = await startRig({
    settings: { keyFile: file, keys: [fixed('chief', rest), fixed('other')] },
    ports: { now },
  })
  t.after(() => rig.stop())
  return {
    folder,
    pass: (ms: number) => void (passed += ms),
    stored: (): StoredKey[] => (JSON.parse(readFileSync(file, 'utf8')) as { keys: StoredKey[] }).keys,
    keys: async (...args: string[]) =>
      (await instar(['keys', ...args, '--json'], { INSTAR_DATA: folder }, folder)).json,
    async make(token = tokenOf('chief'), json: object = {}) {
      const headers = { authorization: `Bearer ${token}` }
      const response = await rig.fetch('/admin/agent-key', { json, headers })
      return [
        response.status,
        (await response.json()) as { id: string; token: string; error?: { code: string } },
      ] as const
    },
    ask: async (token: string): Promise<number> =>
      (
        await rig.fetch('/v1/chat/completions', {
          json: { model: 'policy', messages: [USER('Hello')] },
          headers: { authorization: `Bearer ${token}` },
        })
      ).status,
  }
}

test('a key names its maker, and has neither wider limits nor a later expiry', async (t) => {
  const expiresAt = Date.now() + 3_600_000
  const limits = { expiresAt, requestsPerMinute: 7, bytesPerMinute: 70_000, concurrent: 2 }
  const gateway = await start(t, limits)
  assert.equal((await gateway.make())[0], 200)
  const [made] = gateway.stored()
  assert.deepEqual(
    [made!.created_by, made!.expires_at, made!.requests_per_minute, made!.bytes_per_minute, made!.concurrent],
    ['chief', new Date(expiresAt).toISOString(), 7, 70_000, 2],
  )
  const [listed] = (await gateway.keys('list')) as StoredKey[]
  assert.equal(listed!.created_by, 'chief')
  const { out } = await instar(['keys', 'list'], { INSTAR_DATA: gateway.folder }, gateway.folder)
  assert.match(out, /created by.*\n.*\n.*  chief\b/)
})

test('a name is printable text of at most 100 characters', async (t) => {
  const gateway = await start(t)
  for (const name of ['', ' ', 'a\u001b[2Jb', 'a\nb', 'a\u009bb', 'a\u202eb', 'a\u2028b', 'x'.repeat(101)]) {
    const [status, { error }] = await gateway.make(tokenOf('chief'), { name })
    assert.deepEqual([status, error?.code], [400, 'bad_request'], JSON.stringify(name))
    assert.equal((await instar(['keys', 'add', name], { INSTAR_DATA: gateway.folder })).code, 2, JSON.stringify(name))
  }
  const [status, { id }] = await gateway.make(tokenOf('chief'), { name: 'Ännchen 🌿' })
  assert.equal(status, 200)
  // A file that an earlier build wrote.
  const file = join(gateway.folder, 'keys.json')
  writeFileSync(file, JSON.stringify({ keys: gateway.stored().map((key) => ({ ...key, name: 'a\u001b[2J' })) }))
  await gateway.keys('rotate', id)
  assert.equal(gateway.stored()[1]!.name, 'a?[2J')
})

test('a maker makes so many a minute and has so many at a time', async (t) => {
  const gateway = await start(t)
  for (let made = 0; made < MADE_PER_MINUTE; made += 1) assert.equal((await gateway.make())[0], 200, String(made))
  const [status, { error }] = await gateway.make()
  assert.deepEqual([status, error?.code], [429, 'rate_limited'])
  assert.equal((await gateway.make(tokenOf('other')))[0], 200, 'another maker')
  gateway.pass(60_000)
  const [one] = gateway.stored()
  const more = Array.from({ length: MOST_MADE - 1 - MADE_PER_MINUTE }, (_, n) => ({
    ...one!,
    id: `more-${n}`,
    sha256: sha256(Buffer.from(`more ${n}`)),
  }))
  writeFileSync(join(gateway.folder, 'keys.json'), JSON.stringify({ keys: [...gateway.stored(), ...more] }))
  assert.equal((await gateway.make())[0], 200, 'the last one')
  const [full, refused] = await gateway.make()
  assert.deepEqual([full, refused.error?.code], [429, 'overloaded'])
  assert.equal((await gateway.make(tokenOf('other')))[0], 200, 'another maker')
})

test('a key that was made ends with its maker, by `keys revoke` and in a file that was written beside it', async (t) => {
  const gateway = await start(t)
  const chief = (await gateway.keys('add', 'chief', '--scopes', 'admin')) as StoredKey & { token: string }
  gateway.pass(1001)
  const [, made] = await gateway.make(chief.token)
  const [, others] = await gateway.make(tokenOf('other'))
  assert.deepEqual([await gateway.ask(made.token), await gateway.ask(others.token)], [200, 200])
  const rotated = (await gateway.keys('rotate', chief.id)) as StoredKey
  assert.equal(gateway.stored().find(({ id }) => id === made.id)!.created_by, rotated.id)
  await gateway.keys('revoke', chief.id)
  gateway.pass(1001)
  assert.equal(await gateway.ask(made.token), 200, 'its maker goes on as another key')
  const { out } = await instar(['keys', 'revoke', rotated.id], { INSTAR_DATA: gateway.folder }, gateway.folder)
  assert.match(out, new RegExp(`with it ends the key that it made: ${made.id} \\(an agent\\)`))
  gateway.pass(1001)
  assert.deepEqual([await gateway.ask(made.token), await gateway.ask(others.token)], [401, 200])
  assert.deepEqual(
    gateway.stored().map(({ id }) => id),
    [others.id],
  )
})
