/** A record whose row changed on the disk after it was written, and files of earlier builds, which have no checksums. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { decodeReadable, decodeRecord, encodeRecord, RELEASED, schemaTexts } from '@instar/events'
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
  using db = new DatabaseSync(join(folder, 'log.db'))
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

for (const [what, sql] of [
  ['a bit of the payload', `UPDATE turns SET payload = unhex(replace(hex(payload), 'F03F', 'F03E')) WHERE offset = 0`],
  ['the key', `UPDATE turns SET key = 'c' || substr(key, 2) WHERE offset = 0`],
  ['the time', 'UPDATE turns SET timestamp = timestamp + 1 WHERE offset = 0'],
  ['the schema', `UPDATE turns SET schema = (SELECT id FROM schemas WHERE name = 'TurnScored.v1') WHERE offset = 0`],
  ['the schema, which the log does not define', 'UPDATE turns SET schema = 9999 WHERE offset = 0'],
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

test('two rows that changed places are unreadable', async (t) => {
  const folder = await made(t, [0, 1, 2].map(feedback))
  change(
    folder,
    `UPDATE turns SET offset = -1 WHERE offset = 0; UPDATE turns SET offset = 0 WHERE offset = 1;
     UPDATE turns SET offset = 1 WHERE offset = -1`,
  )
  assert.deepEqual(decodable(await read(folder)), [false, false, true])
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
