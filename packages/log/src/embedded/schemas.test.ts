/** Rows of the table `schemas` that changed on the disk after they were written. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { decodeRecord, schemaTexts } from '@instar/events'
import { feedbackRecord } from '../../../../test/kit/feedback-record.ts'
import type { Append } from '../port.ts'
import { openEmbeddedLog } from './log.ts'

const schemas = schemaTexts()
const record = feedbackRecord('s', 1)
const NAME = record.schema
const OTHER = 'TurnScored.v1'

const made = async (t: TestContext, records: readonly Append[] = [record], known = schemas): Promise<string> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-log-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const log = await openEmbeddedLog({ folder, schemas: known })
  await log.append(records)
  await log.close()
  return folder
}

const change = (folder: string, sql: string): void => {
  using db = new DatabaseSync(join(folder, 'log.db'), { defensive: false })
  db.exec(sql)
}

/** The types of all records, as they are decoded; `writing`: by a process that then appends one. */
const typesIn = async (folder: string, writing?: string[]): Promise<string[]> => {
  const log = await openEmbeddedLog({
    folder,
    ...(writing ? { schemas, logLine: (line: string) => writing.push(line) } : { readOnly: true }),
  })
  try {
    if (writing) await log.append([feedbackRecord('s', 2)])
    const types: string[] = []
    for await (const page of log.read('turns')) types.push(...page.map((one) => decodeRecord(one).event.type))
    return types
  } finally {
    await log.close()
  }
}

/** Gives the row of NAME another name without the index on names noticing, as a flipped bit does. */
const renamed = (name: string): string => `
  CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT, avro TEXT, checksum INTEGER);
  INSERT INTO other SELECT id, iif(name = '${NAME}', '${name}', name), avro, checksum FROM schemas;
  DROP TABLE schemas; ALTER TABLE other RENAME TO schemas;
  CREATE INDEX names ON schemas (name)`

const UNCHECKED = 'ALTER TABLE schemas DROP COLUMN checksum'

for (const [what, sql, reads] of [
  ['a letter of its name', `UPDATE schemas SET name = 'FeedbackGiveo.v1' WHERE name = '${NAME}'`, 'FeedbackGiveo.v1'],
  ['its name into none', `UPDATE schemas SET name = 'x"' WHERE name = '${NAME}'`, 'x\\"'],
  [
    'a letter of its text',
    `UPDATE schemas SET avro = replace(avro, 'subject', 'subjecu') WHERE name = '${NAME}'`,
    NAME,
  ],
  [
    'a letter of its name, without a checksum',
    `${UNCHECKED}; UPDATE schemas SET name = 'F.v1' WHERE name = '${NAME}'`,
    'F.v1',
  ],
] as const)
  test(`records are read by the schema that they were written with after a change of ${what}`, async (t) => {
    const folder = await made(t)
    change(folder, sql)
    assert.deepEqual(await typesIn(folder), ['FeedbackGiven'])
    const lines: string[] = []
    assert.deepEqual(await typesIn(folder, lines), ['FeedbackGiven', 'FeedbackGiven'])
    assert.equal(lines.length, 1)
    assert.match(
      lines[0]!,
      /^WARNING: schema \d+ of the log, whose name reads ".+", changed on the disk: it is read as FeedbackGiven\.v\d$/,
    )
    assert.ok(lines[0]!.includes(`"${reads}"`), lines[0])
    assert.deepEqual(await typesIn(folder), ['FeedbackGiven', 'FeedbackGiven'])
  })

test('a name that became that of another schema does not change how records are read', async (t) => {
  const folder = await made(t)
  change(folder, renamed(OTHER))
  assert.deepEqual(await typesIn(folder), ['FeedbackGiven'])
})

/** A later writer gives an id of its own to a schema that the log lacks. */
const LATER = 'FeedbackGiven.v9'

for (const [what, ids] of [
  ['exchanged with that of another schema', 2],
  ['changed to one that no schema has', 1],
] as const)
  test(`records are read by the schema that they were written with after its id was ${what}`, async (t) => {
    const folder = await made(t)
    const idsOf = (): Map<string, number> => {
      using db = new DatabaseSync(join(folder, 'log.db'), { readOnly: true })
      const rows = db.prepare('SELECT name, id FROM schemas').all() as { name: string; id: number }[]
      return new Map(rows.map(({ name, id }) => [name, id]))
    }
    const before = idsOf()
    change(
      folder,
      ids === 1
        ? `UPDATE schemas SET id = id + 512 WHERE name = '${NAME}'`
        : `UPDATE schemas SET id = -1 WHERE name = '${NAME}'; UPDATE schemas SET id = ${before.get(NAME)} WHERE name = '${OTHER}';
           UPDATE schemas SET id = ${before.get(OTHER)} WHERE name = '${NAME}'`,
    )
    assert.notEqual(idsOf().get(NAME), before.get(NAME))
    assert.deepEqual(await typesIn(folder), ['FeedbackGiven'])
    const lines: string[] = []
    assert.deepEqual(await typesIn(folder, lines), ['FeedbackGiven', 'FeedbackGiven'])
    assert.equal(lines.length, ids)
    for (const name of [NAME, OTHER].slice(0, ids))
      assert.ok(
        lines.includes(
          `WARNING: schema ${idsOf().get(name)} of the log, whose name reads "${name}", changed on the disk: it is read as schema ${before.get(name)}, which it was`,
        ),
        lines.join('\n'),
      )
    const text = JSON.stringify({ ...(JSON.parse(schemas[NAME]!) as object), doc: 'of a later build' })
    const later = await openEmbeddedLog({ folder, schemas: { ...schemas, [LATER]: text } })
    await later.append([{ ...record, schema: LATER }])
    await later.close()
    assert.ok(![...before.values()].includes(idsOf().get(LATER)!))
    assert.deepEqual(await typesIn(folder), ['FeedbackGiven', 'FeedbackGiven', 'FeedbackGiven'])
  })

test('of two rows with one id each is read by the id that it was written with', async (t) => {
  const folder = await made(t, [record, { ...record, schema: NAME }])
  // As a bit of the id that flips: the row stays where it is, and its id is that of another row.
  change(
    folder,
    `CREATE TABLE other (id INTEGER, name TEXT, avro TEXT, checksum INTEGER);
     INSERT INTO other SELECT iif(name = '${OTHER}', (SELECT id FROM schemas WHERE name = '${NAME}'), id), name, avro, checksum
       FROM schemas;
     DROP TABLE schemas; ALTER TABLE other RENAME TO schemas`,
  )
  assert.deepEqual(await typesIn(folder), ['FeedbackGiven', 'FeedbackGiven'])
})

test('a changed schema of another build is named and not used; records of others are read', async (t) => {
  const later = 'FeedbackGiven.v9'
  const text = JSON.stringify({ ...(JSON.parse(schemas[NAME]!) as object), doc: 'of a later build' })
  const known = { ...schemas, [later]: text }
  const folder = await made(t, [record, { ...record, schema: later }], known)
  assert.deepEqual(await typesIn(folder), ['FeedbackGiven', 'FeedbackGiven'])
  change(folder, `UPDATE schemas SET name = 'FeedbackGiven.v8' WHERE name = '${later}'`)
  await assert.rejects(typesIn(folder), {
    code: 'data_unreadable',
    message: /^schema \d+ of the log, whose name reads "FeedbackGiven\.v8", does not match its checksum/,
  })
  const lines: string[] = []
  const log = await openEmbeddedLog({ folder, schemas, logLine: (line) => lines.push(line) })
  assert.match(lines.join('\n'), /"FeedbackGiven\.v8", changed on the disk: its records cannot be read$/)
  const first = await log.at({ topic: 'turns', partition: 0, offset: 0 })
  if (first) assert.equal(decodeRecord(first).event.type, 'FeedbackGiven')
  assert.equal('FeedbackGiven.v8' in log.schemas(), false)
  await log.close()
})

test('a file of an earlier build gets checksums from the next writer', async (t) => {
  const folder = await made(t)
  change(folder, UNCHECKED)
  assert.deepEqual(await typesIn(folder), ['FeedbackGiven'])
  const lines: string[] = []
  await typesIn(folder, lines)
  using db = new DatabaseSync(join(folder, 'log.db'), { readOnly: true })
  const { rows, unchecked } = db
    .prepare('SELECT count(*) AS rows, sum(checksum IS NULL) AS unchecked FROM schemas')
    .get() as { rows: number; unchecked: number }
  assert.deepEqual([rows, unchecked, lines], [Object.keys(schemas).length, 0, []])
})
