/** A snapshot of a log is none of its copy with another number of partitions, whatever single records say. */
import { recordId } from '@instar/events'
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { all, note, range, textOf } from '../../../../test/kit/event-log/harness.ts'
import { copyLog } from '../copy/copy.ts'
import { openMemoryLog } from '../memory/log.ts'
import { partitionOf } from '../partition.ts'
import type { EventLog, LogRecord } from '../port.ts'
import { openSnapshots } from './store.ts'

const keyOf = (of8: number, of12: number): string =>
  range(10_000)
    .map((i) => `session-${i}`)
    .find((key) => partitionOf(key, 8) === of8 && partitionOf(key, 12) === of12)!

test('a snapshot whose last records are at the same offsets of a copy is not used where the copy lacks what was folded', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'instar-partitions-'))
  t.after(() => rmSync(path, { recursive: true }))
  const old = openMemoryLog({ partitions: { turns: 8 } })
  const moved = openMemoryLog({ partitions: { turns: 12 } })
  // Of partition 0 the second record leaves, and one of partition 4 comes in its place: the last one stays at offset 2.
  const [stays, leaves, comes] = [keyOf(0, 0), keyOf(0, 4), keyOf(4, 0)]
  for (const [i, key] of [stays, leaves, comes, stays].entries())
    await old.append([note(key, `${i}`, { timestamp: 1000 + i })])
  await copyLog({ from: old, to: moved })
  const folded = (await all(old.read('turns', { partition: 0 }))) as LogRecord[]
  assert.deepEqual(
    [folded.map(textOf), (await all(moved.read('turns', { partition: 0 }))).map(textOf)],
    [
      ['0', '1', '3'],
      ['0', '2', '3'],
    ],
  )

  const lines: string[] = []
  const open = async (log: EventLog, records: readonly LogRecord[]): Promise<unknown> => {
    const store = openSnapshots(path, { records: 1e9, ms: Infinity, logLine: (line) => lines.push(line) })
    const snapshot = store.of('test', { number: 1, migrations: {} })
    const positions = await snapshot.open(log)
    for (const record of records) void snapshot.after({ ...record, id: recordId(record) })
    await snapshot.close()
    return positions
  }
  await open(old, folded)
  assert.deepEqual(await open(old, []), { turns: { 0: folded.at(-1)!.offset + 1 } })
  assert.deepEqual(await open(moved, []), {})
  assert.deepEqual(lines, [
    'test: the snapshot is not used (it is of a log with 8 partitions of turns, and this one has 12); the log is read from its start',
  ])
})
