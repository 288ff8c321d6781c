/** An archive against its log: what differs is named by position, on the side that lacks it; checkpoints that it covers. */
import { encodeEvent, schemaTexts, type StateCheckpointed } from '@instar/events'
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { feedbackRecord } from '../../../../test/kit/feedback-record.ts'
import {
  Archive,
  compareWithLog,
  openEmbeddedLog,
  openFolderStore,
  writeArchive,
  type EmbeddedLog,
  type LogComparison,
  type LogRecord,
} from '../index.ts'

const root = mkdtempSync(join(tmpdir(), 'instar-against-log-'))
after(() => rmSync(root, { recursive: true, force: true }))
const folder = (): string => mkdtempSync(join(root, 'x-'))
const QUIET = { onProgress: () => undefined }
const COUNT = 300

const withLog = async <T>(place: string, use: (log: EmbeddedLog) => Promise<T>): Promise<T> => {
  const log = await openEmbeddedLog({ folder: place, schemas: schemaTexts() })
  try {
    return await use(log)
  } finally {
    await log.close()
  }
}
const append = (place: string, count: number, first = 0): Promise<unknown> =>
  withLog(place, (log) =>
    log.append(Array.from({ length: count }, (_, i) => feedbackRecord(`s${(first + i) % 17}`, first + i))),
  )
const archive = (place: string, to: string): Promise<unknown> =>
  withLog(place, async (log) => {
    const store = openFolderStore(to, true)
    try {
      return await writeArchive({ from: log, schemas: () => log.schemas(), to: store })
    } finally {
      await store.close()
    }
  })
const compared = (place: string, from: string): Promise<LogComparison> =>
  withLog(place, async (log) => compareWithLog(await Archive.open(openFolderStore(from, false)), log, QUIET))

const made = async (): Promise<{ place: string; to: string }> => {
  const [place, to] = [folder(), folder()]
  await append(place, COUNT)
  await archive(place, to)
  return { place, to }
}

/** A copy of a log whose file was changed. */
const changed = (place: string, sql: string): string => {
  const copy = folder()
  cpSync(place, copy, { recursive: true })
  const db = new DatabaseSync(join(copy, 'log.db'))
  db.exec(sql)
  db.close()
  return copy
}

test('an archive is equal to its log; what was appended since is counted and no difference', async () => {
  const { place, to } = await made()
  assert.deepEqual(await compared(place, to), { records: COUNT, damaged: 0, behind: 0, checkpoints: [], first: null })
  await append(place, 40, COUNT)
  const { records, behind, first } = await compared(place, to)
  assert.deepEqual([records, behind, first], [COUNT, 40, null])
})

test('a record with other bytes, another time, or on one side only is named with its position', async () => {
  const { to } = await made()
  // Another record in the place of each, with a checksum of its own, as a restore of another copy would have it.
  const other = folder()
  await withLog(other, (log) =>
    log.append(
      Array.from({ length: COUNT }, (_, i) => {
        const record = feedbackRecord(`s${i % 17}`, i)
        return i === 123 ? { ...record, timestamp: record.timestamp + 1 } : record
      }),
    ),
  )
  const time = (await compared(other, to)).first
  assert.deepEqual([time?.topic, time?.offset, time?.key], ['turns', 123, 's4'])
  assert.match(time!.what, /^its timestamp is \d+, at the archive \d+$/)

  const shorter = folder()
  await append(shorter, COUNT - 1)
  const missing = (await compared(shorter, to)).first
  assert.deepEqual([missing?.offset, missing?.what], [COUNT - 1, 'the log does not have this record'])
})

test('a damaged row is counted and no difference, whether it was damaged before or after it was archived', async () => {
  const { place, to } = await made()
  const after = await compared(changed(place, 'UPDATE turns SET checksum = checksum + 1 WHERE offset = 7'), to)
  assert.deepEqual([after.records, after.damaged, after.first], [COUNT - 1, 1, null])
  const before = changed(place, 'UPDATE turns SET checksum = checksum + 1 WHERE offset IN (7, 299)')
  const without = folder()
  await archive(before, without)
  const same = await compared(before, without)
  assert.deepEqual([same.records, same.damaged, same.first], [COUNT - 2, 2, null])
  // Repaired on the log: the archive lacks it until it is run again.
  const repaired = await compared(place, without)
  assert.deepEqual([repaired.first?.offset, repaired.first?.what], [7, 'the archive does not have this record'])
  await archive(place, without)
  assert.equal((await compared(place, without)).first, null)
})

test('of each state the newest checkpoint is listed, archived once all records before it are', async () => {
  const { place, to } = await made()
  await append(place, 1, COUNT)
  const checkpoint = (name: string, { partition, offset }: LogRecord, at: number): StateCheckpointed => ({
    type: 'StateCheckpointed',
    name,
    version: 1,
    digest: 'd',
    rows: 1,
    positions: [{ topic: 'turns', partition, next: offset + 1, record: 'r' }],
    file: 'f',
    bytes: 1,
    who: 'checkpoint',
    at,
  })
  await withLog(place, async (log) => {
    const all: LogRecord[] = []
    for await (const records of log.read('turns')) all.push(...records)
    const [early, late] = [all[100]!, all.at(-1)!]
    await log.append(
      [
        checkpoint('trainer.policy', early, 1),
        checkpoint('scorer.policy', early, 2),
        checkpoint('trainer.policy', late, 3),
      ].map((event) => encodeEvent(event)),
    )
  })
  const listed = async (): Promise<[string, number, boolean][]> =>
    (await compared(place, to)).checkpoints.map(({ name, at, archived }) => [name, at, archived])
  assert.deepEqual(await listed(), [
    ['trainer.policy', 3, false],
    ['scorer.policy', 2, true],
  ])
  await archive(place, to)
  assert.deepEqual(await listed(), [
    ['trainer.policy', 3, true],
    ['scorer.policy', 2, true],
  ])
})

test('a log of other partitions is refused', async () => {
  const { to } = await made()
  const other = folder()
  const log = await openEmbeddedLog({ folder: other, schemas: schemaTexts(), partitions: { turns: 3 } })
  await assert.rejects(compareWithLog(await Archive.open(openFolderStore(to, false)), log, QUIET), {
    code: 'archive_differs',
  })
  await log.close()
})
