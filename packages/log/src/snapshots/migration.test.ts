import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openMemoryLog } from '../memory/log.ts'
import type { EventLog } from '../port.ts'
import { recordId } from '@instar/events'
import { SnapshotFile } from './file.ts'
import { openSnapshots } from './store.ts'
import { toBytes } from './value.ts'
import type { StateVersion } from './version.ts'

const V1: StateVersion = { number: 1, migrations: {} }
/** The first form of a note is a text, the second has its length, the third the text in capitals, too. */
const toV2 = (file: Parameters<NonNullable<StateVersion['migrations'][1]>>[0]): void =>
  file.set('notes', 'a', toBytes({ text: 'yes', length: 3 }, true))
const toV3 = (file: Parameters<NonNullable<StateVersion['migrations'][1]>>[0]): void =>
  file.set('notes', 'a', toBytes({ text: 'yes', length: 3, loud: 'YES' }, true))

type Opened = { positions: unknown; note: unknown; lines: string[] }

const folder = (t: TestContext): string => {
  const path = mkdtempSync(join(tmpdir(), 'instar-migration-'))
  t.after(() => rmSync(path, { recursive: true }))
  return path
}

/** Opens the snapshot with this version; with `note`, folds a record that sets it. */
const open = async (log: EventLog, path: string, version: StateVersion, note?: unknown): Promise<Opened> => {
  const lines: string[] = []
  const store = openSnapshots(path, { records: 1e9, ms: Infinity, logLine: (line) => lines.push(line) })
  const snapshot = store.of('test', version)
  const notes = snapshot.table<unknown>('notes', { json: () => true })
  const positions = await snapshot.open(log)
  if (note !== undefined) {
    notes.set('a', note)
    const record = await log.at({ topic: 'turns', partition: 0, offset: 0 })
    void snapshot.after({ topic: 'turns', partition: 0, offset: 0, id: recordId(record!) })
  }
  const found = notes.get('a')
  await snapshot.close()
  return { positions, note: found, lines }
}

const aLog = async (): Promise<EventLog> => {
  const log = openMemoryLog({ partitions: { turns: 1 } })
  await log.append([
    { topic: 'turns', key: 's', schema: 'turns/SessionClosed.v3', payload: Buffer.from('{}'), timestamp: 1 },
  ])
  return log
}

const AT = { turns: { 0: 1 } }
const V3: StateVersion = { number: 3, migrations: { 1: toV2, 2: toV3 } }

test('a snapshot of an earlier version is migrated step by step, keeps its position, and is not migrated again', async (t) => {
  const [log, path] = [await aLog(), folder(t)]
  assert.equal((await open(log, path, V1, 'yes')).note, 'yes')
  assert.deepEqual(await open(log, path, V3), {
    positions: AT,
    note: { text: 'yes', length: 3, loud: 'YES' },
    lines: ['test: the snapshot was migrated from v1 to v3'],
  })
  assert.deepEqual((await open(log, path, V3)).lines, [])
})

const UNUSED: Opened = {
  positions: {},
  note: undefined,
  lines: ['test: the snapshot is not used (another build wrote it); the log is read from its start'],
}

test('without a whole way of migrations, or of a newer build, the log is read from its start', async (t) => {
  for (const [written, opened] of [
    [V1, { number: 3, migrations: { 2: toV3 } }],
    [V3, V1],
  ] as [StateVersion, StateVersion][]) {
    const [log, path] = [await aLog(), folder(t)]
    await open(log, path, written, 'yes')
    assert.deepEqual(await open(log, path, opened), UNUSED)
  }
})

test('the digest of a build before the numbers is taken over as the number that is known for it, or else not used', async (t) => {
  const DIGEST = '0123456789abcdef'
  const digests = { [DIGEST]: 1 }
  for (const [version, expected] of [
    [V1, UNUSED],
    [
      { ...V1, digests },
      { positions: AT, note: 'yes', lines: [] },
    ],
    [
      { ...V3, digests },
      {
        positions: AT,
        note: { text: 'yes', length: 3, loud: 'YES' },
        lines: [`test: the snapshot was migrated from ${DIGEST} to v3`],
      },
    ],
    [{ number: 3, migrations: { 2: toV3 }, digests }, UNUSED],
  ] as [StateVersion, Opened][]) {
    const [log, path] = [await aLog(), folder(t)]
    await open(log, path, V1, 'yes')
    const file = new SnapshotFile(join(path, 'test.db'))
    file.begin()
    file.setMeta('version', DIGEST)
    file.commit()
    await file.close()
    assert.deepEqual(await open(log, path, version), expected)
  }
})

test('a migration that fails leaves no half of a state: the log is read from its start', async (t) => {
  const [log, path] = [await aLog(), folder(t)]
  await open(log, path, V1, 'yes')
  const failing: StateVersion = {
    number: 3,
    migrations: {
      1: toV2,
      2: () => {
        throw new Error('no length')
      },
    },
  }
  assert.deepEqual(await open(log, path, failing), {
    positions: {},
    note: undefined,
    lines: [
      'test: the snapshot is not used (its state cannot be migrated from v1 to v3: no length); the log is read from its start',
    ],
  })
})
