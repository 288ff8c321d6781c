import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { InstarError } from '@instar/events'
import type { ReadModel } from '@instar/projections/read-model'
import { createChecks, KEPT_MS, type CheckPorts } from './checks.ts'

const portsOf = (changes: Partial<CheckPorts> = {}): CheckPorts => ({
  log: openMemoryLog(),
  data: import.meta.dirname,
  readModel: null,
  model: { name: 'tiny', contextLength: 512 },
  engine: { capabilities: () => ({ fingerprint: 'test engine' }) },
  now: () => 1_000,
  ...changes,
})
const inspecting = (inspect: ReadModel['inspect']): ReadModel => ({ inspect }) as ReadModel

test('findings are those of doctor, each by its name', async () => {
  const inspect = async () => ({
    version: 'PostgreSQL 18',
    migrations: { state: 'older' as const, applied: 1, ours: 2 },
    marks: [],
  })
  const { at, checks } = await createChecks(portsOf({ readModel: inspecting(inspect) }))()
  assert.equal(at, '1970-01-01T00:00:01.000Z')
  assert.deepEqual(
    checks.map(({ name, level }) => [name, level]),
    [
      ['node', 'ok'],
      ['data folder', 'ok'],
      ['log', 'ok'],
      ['model', 'ok'],
      ['engine', 'ok'],
      ['PostgreSQL', 'ok'],
      ['migrations', 'wrong'],
      ['projections', 'unsure'],
    ],
  )
  assert.match(checks.find(({ name }) => name === 'log')!.found, /^0 turns, 0 scores/)
})

test('however many pages ask, one round of checks runs, and its findings are kept', async () => {
  let inspected = 0
  let now = 0
  const inspect = async (): Promise<never> => {
    inspected += 1
    throw new InstarError('postgres_failed', 'PostgreSQL: away')
  }
  const checks = createChecks(portsOf({ readModel: inspecting(inspect), now: () => now }))
  const all = await Promise.all(Array.from({ length: 10 }, checks))
  assert.equal(inspected, 1)
  const found = all[9]!.checks.filter(({ name }) => name === 'PostgreSQL' || name === 'migrations')
  assert.deepEqual(
    found.map(({ level, found: text }) => [level, text]),
    [
      ['wrong', 'postgres_failed: PostgreSQL: away'],
      ['unsure', 'PostgreSQL does not answer'],
    ],
  )
  now = KEPT_MS - 1
  await checks()
  assert.equal(inspected, 1)
  now = KEPT_MS
  await checks()
  assert.equal(inspected, 2)
})

test('a check that does not end is said to be unsure', async () => {
  const never = new Promise<never>(() => undefined)
  const { checks } = await createChecks(portsOf({ readModel: inspecting(() => never) }), 20)()
  assert.deepEqual(
    checks.filter(({ level }) => level !== 'ok').map(({ name, level, found }) => [name, level, found]),
    ['PostgreSQL', 'migrations', 'projections'].map((name) => [name, 'unsure', 'no result after 0.02 s']),
  )
})
