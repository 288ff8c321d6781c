/** Builds with other states on one folder: each goes on from its own file, and a deploy can be taken back. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { recordId } from '@instar/events'
import { openMemoryLog } from '../memory/log.ts'
import type { EventLog } from '../port.ts'
import { KEPT_MS } from './other-builds.ts'
import type { Snapshot } from './snapshot.ts'
import { openSnapshots } from './store.ts'
import type { StateVersion } from './version.ts'

const V1: StateVersion = { number: 1, migrations: {} }
const V2: StateVersion = { number: 2, migrations: {} }
const AT = { turns: { 0: 1 } }

type Life = { snapshot: Snapshot; positions: unknown; note: string | undefined; files: string[]; lines: string[] }

const setUp = async (t: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-builds-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const log: EventLog = openMemoryLog({ partitions: { turns: 1 } })
  await log.append([
    { topic: 'turns', key: 's', schema: 'turns/SessionClosed.v3', payload: Buffer.from('{}'), timestamp: 1 },
  ])
  const id = recordId((await log.at({ topic: 'turns', partition: 0, offset: 0 }))!)
  const clock = { ahead: 0 }
  const dbs = (): string[] => readdirSync(folder).filter((file) => file.endsWith('.db'))
  const start = async (version: StateVersion): Promise<Life> => {
    const lines: string[] = []
    const now = (): number => Date.now() + clock.ahead
    const store = openSnapshots(folder, { records: 1e9, ms: Infinity, now, logLine: (line) => lines.push(line) })
    const snapshot = store.of('test', version)
    const notes = snapshot.table<string>('notes', { json: () => true })
    const positions = await snapshot.open(log)
    const note = notes.get('a')
    // A build writes the name of its version.
    notes.set('a', `of ${version.number}`)
    return { snapshot, positions, note, files: dbs(), lines }
  }
  /** A life of a build, which folds the record of the log. */
  const life = async (
    version: StateVersion,
  ): Promise<Omit<Life, 'snapshot'> & { folding: number | null; others: number }> => {
    const { snapshot, ...rest } = await start(version)
    void snapshot.after({ topic: 'turns', partition: 0, offset: 0, id })
    await snapshot.close()
    return { ...rest, folding: snapshot.folding(), others: snapshot.otherBuilds().count }
  }
  return { folder, log, id, clock, start, life, dbs }
}

test('a new build that must fold again does so beside the old file; back to the old build and to the new one again nothing is folded', async (t) => {
  const { life } = await setUp(t)
  await life(V1)
  assert.deepEqual(await life(V2), {
    positions: {},
    note: undefined,
    files: ['test.db', 'test.v2.db'],
    lines: ['test: the snapshot is not used (another build wrote it); the log is read from its start'],
    folding: 1,
    others: 1,
  })
  const kept = { positions: AT, files: ['test.db', 'test.v2.db'], lines: [], folding: null, others: 1 }
  assert.deepEqual(await life(V1), { ...kept, note: 'of 1' })
  assert.deepEqual(await life(V2), { ...kept, note: 'of 2' })
  assert.deepEqual(await life(V1), { ...kept, note: 'of 1' })
})

test('a file that no build has used for a day is removed, with what stands beside it, and not before', async (t) => {
  const { folder, clock, life, dbs } = await setUp(t)
  await life(V1)
  mkdirSync(join(folder, 'test.db.names'))
  writeFileSync(join(folder, 'test.db.names', 'CURRENT'), 'x')
  await life(V2)
  clock.ahead = KEPT_MS / 2
  await life(V2)
  clock.ahead = KEPT_MS - 60_000
  assert.equal((await life(V2)).others, 1)
  assert.deepEqual(dbs(), ['test.db', 'test.v2.db'])
  clock.ahead = KEPT_MS
  const last = await life(V2)
  assert.deepEqual(last.lines, ['test: test.db, which another build wrote, was not used for a day and is removed'])
  assert.equal(last.others, 0)
  // Looking at a file leaves an index of its write-ahead log, which nothing reads.
  assert.deepEqual(
    readdirSync(folder).filter((file) => file !== 'test.v2.db-shm'),
    ['test.v2.db'],
  )
  assert.deepEqual([(await life(V2)).note, (await life(V1)).positions], ['of 2', {}])
})

test('a process that runs for longer than a day removes it at a snapshot; one that the other build uses meanwhile stays', async (t) => {
  const { folder, id, clock, start, life, dbs } = await setUp(t)
  await life(V1)
  const long = await start(V2)
  const save = async (): Promise<void> => {
    await long.snapshot.after({ topic: 'turns', partition: 0, offset: 0, id })
    await long.snapshot.save()
    // The one after it waits for what is done after the one before.
    await long.snapshot.after({ topic: 'turns', partition: 0, offset: 0, id })
    await long.snapshot.save()
  }
  await save()
  // Used after the new build found it.
  await life(V1)
  const later = Date.now() / 1000 + 1
  utimesSync(join(folder, 'test.db'), later, later)
  clock.ahead = KEPT_MS
  await save()
  assert.deepEqual(dbs(), ['test.db', 'test.v2.db'])
  clock.ahead = 2 * KEPT_MS
  await save()
  assert.deepEqual(dbs(), ['test.v2.db'])
  await long.snapshot.close()
})

test('while the old build runs the new one has a file of its own, and goes on from it when the old one has ended', async (t) => {
  const { id, start, life } = await setUp(t)
  await life(V1)
  const old = await start(V1)
  assert.deepEqual((await life(V2)).positions, {})
  void old.snapshot.after({ topic: 'turns', partition: 0, offset: 0, id })
  await old.snapshot.close()
  for (const version of [V2, V1, V2]) {
    const again = await life(version)
    assert.deepEqual([again.positions, again.note, again.lines], [AT, `of ${version.number}`, []])
  }
})

test('a state that cannot be migrated stays, and the build that wrote it goes on from it', async (t) => {
  const { life } = await setUp(t)
  await life(V1)
  const failing: StateVersion = {
    number: 2,
    migrations: {
      1: () => {
        throw new Error('no length')
      },
    },
  }
  const after = await life(failing)
  assert.deepEqual([after.positions, after.folding], [{}, 1])
  assert.match(after.lines.join('\n'), /cannot be migrated from v1 to v2: no length\); the log is read from its start$/)
  assert.deepEqual((await life(V1)).note, 'of 1')
  const again = await life(failing)
  assert.deepEqual([again.positions, again.note, again.lines], [AT, 'of 2', []])
})

test('the file of an earlier build that was put back for a time is removed a day later, also where its state could be migrated', async (t) => {
  const { clock, life, dbs } = await setUp(t)
  const migrating: StateVersion = { number: 2, migrations: { 1: () => undefined } }
  await life(V1)
  assert.equal((await life(migrating)).note, 'of 1')
  assert.equal((await life(V1)).note, undefined)
  const again = await life(migrating)
  assert.deepEqual([again.note, again.others, again.files], ['of 2', 1, ['test.db', 'test.v1.db']])
  assert.equal((await life(V1)).note, 'of 1')
  clock.ahead = KEPT_MS / 2
  await life(migrating)
  clock.ahead = KEPT_MS
  assert.equal((await life(migrating)).others, 1)
  clock.ahead = 2 * KEPT_MS
  const last = await life(migrating)
  assert.deepEqual(last.lines, ['test: test.v1.db, which another build wrote, was not used for a day and is removed'])
  assert.deepEqual([last.others, dbs()], [0, ['test.db']])
})

test('of two files of its version a process takes the one that was used last, and a state before a file without one', async (t) => {
  const { start, life, dbs } = await setUp(t)
  await life(V1)
  const first = await start(V1)
  assert.deepEqual((await life(V1)).positions, {})
  await first.snapshot.close({ save: false })
  assert.deepEqual(dbs(), ['test.2.db', 'test.db'])
  const empty = await start(V1)
  const third = await start(V1)
  const none = await start(V1)
  await none.snapshot.close({ save: false })
  await third.snapshot.close({ save: false })
  await empty.snapshot.close({ save: false })
  assert.deepEqual((await life(V1)).positions, AT)
})

test('a file of a service whose name begins with this one and ends with a number is neither used nor removed', async (t) => {
  const { folder, log, id, clock } = await setUp(t)
  const at = { topic: 'turns', partition: 0, offset: 0, id } as const
  /** The note that a service finds, which it replaces by its name. */
  const life = async (name: string, version: StateVersion): Promise<string | undefined> => {
    const now = (): number => Date.now() + clock.ahead
    const snapshot = openSnapshots(folder, { records: 1e9, ms: Infinity, now }).of(name, version)
    const notes = snapshot.table<string>('notes', { json: () => true })
    await snapshot.open(log)
    const found = notes.get('a')
    notes.set('a', name)
    void snapshot.after(at)
    await snapshot.close()
    return found
  }
  const names = ['m.5', 'm.2', 'm.v2', 'm']
  for (const name of names) assert.equal(await life(name, V1), undefined)
  for (const name of names.toReversed()) assert.equal(await life(name, V1), name)
  assert.equal(await life('m', V2), undefined)
  clock.ahead = 2 * KEPT_MS
  assert.equal(await life('m', V2), 'm')
  clock.ahead = 4 * KEPT_MS
  for (const name of ['m', 'm.v2', 'm.5', 'm.2']) assert.equal(await life(name, name === 'm' ? V2 : V1), name)
})
