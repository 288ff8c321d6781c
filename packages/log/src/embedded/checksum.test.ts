/** A record whose row changed on the disk after it was written, and files of earlier builds, which have no checksums. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { decodeReadable, decodeRecord, encodeRecord, recordId, RELEASED, schemaTexts } from '@instar/events'
import { getBlob, putBlob } from '../blobs.ts'
import { copyLog } from '../copy/copy.ts'
import type { Append, LogRecord } from '../port.ts'
import { openEmbeddedLog } from './log.ts'

const schemas = schemaTexts()
const feedback = (n: number): Append =>
  encodeRecord(
    {
      type: 'FeedbackGiven',
      id: n.toString(16).padStart(32, '0'),
      session: 'a'.repeat(32),
      turn: `${'a'.repeat(32)}.${'b'.repeat(32)}`,
      value: 1,
      comment: null,
      subject: 's',
      key: null,
      at: 1_000 + n,
    },
    RELEASED,
  )

const made = async (t: TestContext, records: readonly Append[]): Promise<string> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-log-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const log = await openEmbeddedLog({ folder, schemas })
  await log.append(records)
  await log.close()
  return folder
}

/** Runs SQL on the file of a log that no process has open. */
const change = (folder: string, sql: string): void => {
  using db = new DatabaseSync(join(folder, 'log.db'), { defensive: false })
  db.exec(sql)
}

const read = async (folder: string): Promise<LogRecord[]> => {
  const log = await openEmbeddedLog({ folder, readOnly: true })
  const found: LogRecord[] = []
  try {
    for await (const records of log.read('turns')) found.push(...records)
    return found
  } finally {
    await log.close()
  }
}

const decodable = (records: readonly LogRecord[]): boolean[] => records.map((record) => decodeReadable(record) !== null)

/** SQL that gives the row at offset 0 values of other types than its columns', as a bit of the row's header does. */
const retyped = (columns: string): string => `
  CREATE TABLE untyped (offset INTEGER PRIMARY KEY, partition, timestamp, reached, schema, key, payload, checksum);
  INSERT INTO untyped SELECT ${columns}, checksum FROM turns WHERE offset = 0;
  INSERT INTO untyped SELECT * FROM turns WHERE offset > 0;
  DROP TABLE turns; ALTER TABLE untyped RENAME TO turns`

/**
 * SQL that gives the row at `offset` of `blobs` another value of `reached`, of any type, as bits of the row do: the table's
 * definition stays the one that refuses such a value.
 */
const retypedReached = (value: string, offset: number): string => `
  CREATE TABLE untyped (offset INTEGER PRIMARY KEY, partition, timestamp, reached, schema, key, payload, checksum);
  INSERT INTO untyped SELECT offset, partition, timestamp, iif(offset = ${offset}, ${value}, reached), schema, key, payload, checksum FROM blobs;
  CREATE TEMP TABLE definition AS SELECT sql FROM sqlite_schema WHERE name = 'blobs';
  DROP TABLE blobs; ALTER TABLE untyped RENAME TO blobs;
  PRAGMA writable_schema = ON;
  UPDATE sqlite_schema SET sql = (SELECT sql FROM definition) WHERE name = 'blobs'`

for (const [what, sql] of [
  ['a bit of the payload', `UPDATE turns SET payload = unhex(replace(hex(payload), 'F03F', 'F03E')) WHERE offset = 0`],
  ['the key', `UPDATE turns SET key = 'c' || substr(key, 2) WHERE offset = 0`],
  ['the time', 'UPDATE turns SET timestamp = timestamp + 1 WHERE offset = 0'],
  ['the schema', `UPDATE turns SET schema = (SELECT id FROM schemas WHERE name = 'TurnScored.v1') WHERE offset = 0`],
  ['the schema, which the log does not define', 'UPDATE turns SET schema = 9999 WHERE offset = 0'],
  ['the partition, which is none of the topic', 'UPDATE turns SET partition = partition | 16 WHERE offset = 0'],
  ['the partition, which is negative', 'UPDATE turns SET partition = partition - 128 WHERE offset = 0'],
  ['the type of the payload', retyped('offset, partition, timestamp, reached, schema, key, CAST(payload AS TEXT)')],
  ['the type of the key', retyped('offset, partition, timestamp, reached, schema, CAST(key AS BLOB), payload')],
  ['the type of the time', retyped('offset, partition, CAST(timestamp AS BLOB), reached, schema, key, payload')],
  ['the type of the partition', retyped('offset, CAST(partition AS BLOB), timestamp, reached, schema, key, payload')],
  ['the checksum', 'UPDATE turns SET checksum = checksum + 1 WHERE offset = 0'],
] as const)
  test(`a record is unreadable after a change of ${what}; the others are read`, async (t) => {
    const folder = await made(t, [0, 1, 2].map(feedback))
    assert.deepEqual(decodable(await read(folder)), [true, true, true])
    change(folder, sql)
    const records = await read(folder)
    assert.deepEqual(decodable(records), [false, true, true])
    assert.throws(() => decodeRecord(records[0]!), {
      code: 'bad_record',
      message: /^the record at turns \d+@0 does not match its checksum: its bytes changed after it was written$/,
    })
  })

test('a record with a changed partition has that of its key: it is found by position and key, and followed', async (t) => {
  for (const sql of ['partition | 16', 'partition - 128', '1 << 40']) {
    const folder = await made(t, [0, 1, 2].map(feedback))
    const [expected] = await read(folder)
    change(folder, `UPDATE turns SET partition = ${sql} WHERE offset = 0`)
    const log = await openEmbeddedLog({ folder, schemas })
    const { key, partition } = (await read(folder))[0]!
    assert.deepEqual([key, partition], [expected!.key, expected!.partition])
    const found = await log.at({ topic: 'turns', partition, offset: 0 })
    assert.deepEqual([found?.damaged, found?.payload, recordId(found!)], [true, expected!.payload, recordId(expected!)])
    await log.append([feedback(3)])
    const followed: LogRecord[] = []
    const subscription = await log.subscribe({
      group: 'g',
      topics: ['turns'],
      from: 'start',
      handle: async (records) => void followed.push(...records),
    })
    await subscription.caughtUp()
    await subscription.stop()
    assert.deepEqual(decodable(followed), [false, true, true, true])
    const ofKey: LogRecord[] = []
    for await (const records of log.read('turns', { key })) ofKey.push(...records)
    assert.deepEqual(decodable(ofKey), [false, true, true, true])
    await log.close()
  }
})

test('the console is told of each damaged record that is read, once, and of a few of many', async (t) => {
  const folder = await made(
    t,
    Array.from({ length: 30 }, (_, n) => feedback(n)),
  )
  const readTwice = async (): Promise<string[]> => {
    const lines: string[] = []
    const log = await openEmbeddedLog({ folder, schemas, logLine: (line) => lines.push(line) })
    for (let time = 0; time < 2; time += 1) for await (const _ of log.read('turns'));
    await log.close()
    return lines
  }
  assert.deepEqual(await readTwice(), [])
  change(folder, 'UPDATE turns SET timestamp = timestamp + 1 WHERE offset = 7')
  const [line, ...others] = await readTwice()
  assert.match(line!, /^WARNING: the record at turns \d+@7 \(FeedbackGiven\.v\d+\) does not match its checksum/)
  assert.deepEqual(others, [])
  change(folder, 'UPDATE turns SET timestamp = 1')
  assert.equal((await readTwice()).length, 20)
})

test('a row without a checksum whose partition is none of the topic is a damaged record', async (t) => {
  const folder = await made(t, [0, 1].map(feedback))
  change(folder, 'ALTER TABLE turns DROP COLUMN checksum; UPDATE turns SET partition = -1 WHERE offset = 0')
  assert.deepEqual(decodable(await read(folder)), [false, true])
})

test('two rows that changed places are unreadable', async (t) => {
  const folder = await made(t, [0, 1, 2].map(feedback))
  change(
    folder,
    `UPDATE turns SET offset = -1 WHERE offset = 0; UPDATE turns SET offset = 0 WHERE offset = 1;
     UPDATE turns SET offset = 1 WHERE offset = -1`,
  )
  assert.deepEqual(decodable(await read(folder)), [false, false, true])
})

test('rows that were cut off at the end of a topic are noticed, by readers and writers', async (t) => {
  for (const [kept, sql] of [
    [2, 'DELETE FROM turns WHERE offset = 2'],
    [0, 'DELETE FROM turns'],
  ] as const) {
    const folder = await made(t, [0, 1, 2].map(feedback))
    change(folder, sql)
    const message = `turns ends at offset ${kept}: its last ${3 - kept} records are missing; restore the log from a copy`
    await assert.rejects(openEmbeddedLog({ folder, readOnly: true }), { code: 'log_truncated', message })
    await assert.rejects(openEmbeddedLog({ folder, schemas }), { code: 'log_truncated', message })
  }
})

/** Changes the offset of a row where it stands on the disk, as a flipped bit does: its place among the others stays. */
const renumber = (folder: string, row: number, to: number): void => {
  const path = join(folder, 'log.db')
  using db = new DatabaseSync(path, { readOnly: true })
  const { root } = db.prepare("SELECT rootpage AS root FROM sqlite_schema WHERE name = 'turns'").get() as {
    root: number
  }
  const { page_size: size } = db.prepare('PRAGMA page_size').get() as { page_size: number }
  const bytes = readFileSync(path)
  const page = (root - 1) * size
  assert.equal(bytes[page], 13, 'the table is one page')
  let at = page + bytes.readUInt16BE(page + 8 + 2 * row)
  // The length of the row, a varint, is before its offset.
  while (bytes[at]! > 127) at += 1
  assert.equal(bytes[at + 1], row)
  bytes[at + 1] = to
  writeFileSync(path, bytes)
}

test('rows behind one whose offset changed on the disk to one beyond the end are noticed, by readers and writers', async (t) => {
  for (const row of [0, 1, 5, 18]) {
    const folder = await made(
      t,
      Array.from({ length: 20 }, (_, i) => feedback(i)),
    )
    renumber(folder, row, row | 64)
    const missing = {
      code: 'log_truncated',
      message: new RegExp(`lacks the records of the offsets ${row} to|starts at`),
    }
    await assert.rejects(read(folder), missing)
    await assert.rejects(openEmbeddedLog({ folder, schemas }), missing)
  }
})

test('a recorded end is not used where it changed on the disk, or where an earlier build wrote on', async (t) => {
  const folder = await made(t, [0, 1].map(feedback))
  change(folder, "UPDATE meta SET value = '3' || substr(value, 2) WHERE name = 'end turns'")
  assert.equal((await read(folder)).length, 2)
  // A bit of the row's header gives it a type that its table refuses.
  change(
    folder,
    `CREATE TABLE untyped (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
     INSERT INTO untyped SELECT name, iif(name = 'end turns', CAST(value AS BLOB), value) FROM meta;
     DROP TABLE meta; ALTER TABLE untyped RENAME TO meta`,
  )
  assert.equal((await read(folder)).length, 2)
  const log = await openEmbeddedLog({ folder, schemas })
  await log.append([feedback(2)])
  await log.close()
  change(
    folder,
    `INSERT INTO turns SELECT 3, partition, timestamp, reached, schema, key, payload, NULL FROM turns WHERE offset = 0`,
  )
  assert.equal((await read(folder)).length, 4)
})

test('a blob is found where the time that a record reached has changed on the disk', async (t) => {
  for (const changed of ['reached - 274877906944', "'x'", 'NULL', '1e200', 'reached + 274877906944']) {
    const folder = mkdtempSync(join(tmpdir(), 'instar-log-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const partitions = { blobs: 1 }
    const writing = await openEmbeddedLog({ folder, schemas, partitions })
    const names: string[] = []
    for (let n = 0; n < 9; n += 1) names.push(await putBlob(writing, Buffer.from(`blob ${n}`), 1_790_000_000_000 + n))
    await writing.close()
    for (const at of [0, 4, 8]) {
      change(folder, retypedReached(changed, at))
      const reading = await openEmbeddedLog({ folder, readOnly: true })
      for (const [n, name] of names.entries())
        assert.equal(Buffer.from(await getBlob(reading, name, 1_790_000_000_000 + n)).toString(), `blob ${n}`)
      await reading.close()
    }
    // The last record has such a time as well: what is written next is found, too.
    const again = await openEmbeddedLog({ folder, schemas, partitions })
    const name = await putBlob(again, Buffer.from('next'), 1_790_000_000_100)
    assert.equal(Buffer.from(await getBlob(again, name, 1_790_000_000_100)).toString(), 'next')
    await again.close()
  }
})

test('a damaged record is not copied, where it would get a checksum that it matches', async (t) => {
  const [folder, other] = [await made(t, [0, 1].map(feedback)), await made(t, [])]
  change(folder, 'UPDATE turns SET timestamp = timestamp + 1 WHERE offset = 1')
  const [from, to] = [
    await openEmbeddedLog({ folder, readOnly: true }),
    await openEmbeddedLog({ folder: other, schemas }),
  ]
  await assert.rejects(copyLog({ from, to }), { code: 'bad_record' })
  await Promise.all([from.close(), to.close()])
})

test('a file of an earlier build is read as it is; the next writer adds the column, and what is written then has checksums', async (t) => {
  const folder = await made(t, [0, 1].map(feedback))
  change(folder, 'ALTER TABLE turns DROP COLUMN checksum')
  assert.deepEqual(decodable(await read(folder)), [true, true])
  const log = await openEmbeddedLog({ folder, schemas })
  await log.append([feedback(2)])
  await log.close()
  assert.deepEqual(decodable(await read(folder)), [true, true, true])
  // An earlier build names the columns that it writes.
  change(
    folder,
    `INSERT INTO turns (offset, partition, timestamp, reached, schema, key, payload)
     SELECT 3, partition, timestamp, reached, schema, key, payload FROM turns WHERE offset = 0`,
  )
  change(folder, 'UPDATE turns SET timestamp = timestamp + 1')
  assert.deepEqual(decodable(await read(folder)), [true, true, false, true])
})
