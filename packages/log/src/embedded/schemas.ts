/**
 * The table `schemas` of `log.db`: a record has the id of one, and is read by its name. Each row has a checksum, since a letter
 * that changes in a name changes how every record with the id is read.
 */
import { schemaTexts } from '@instar/events/codec'
import { InstarError } from '@instar/events/errors'
import type { DatabaseSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'

/** `checksum`: null in a row of an earlier build, until a writer opens the file. */
export const SCHEMA_TABLE =
  'CREATE TABLE IF NOT EXISTS schemas (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, avro TEXT NOT NULL, checksum INTEGER) STRICT;'

type Row = { id: number; name: string; avro: string; checksum: number | null }

/** `was`: what the row says now, where it changed on the disk. */
export type StoredSchema = { id: number; name: string; avro: string; was?: Pick<Row, 'id' | 'name'> }

const checksumOf = ({ id, name, avro }: Pick<Row, 'id' | 'name' | 'avro'>): number => crc32(`${id} ${name} ${avro}`)
const compact = (text: string): string => JSON.stringify(JSON.parse(text))

/** The schemas of this build, as they are stored. */
let own: readonly (readonly [name: string, avro: string])[] | undefined
const ownSchemas = () => (own ??= Object.entries(schemaTexts()).map(([name, text]) => [name, compact(text)] as const))

/** Ids that a row may have had: far more than a log has schemas. */
const MOST_IDS = 1024

/**
 * What a row was when it was written; undefined if it changed since, and nothing tells. Name and text may have its checksum under
 * another id, by which records would be read as those of another schema; or one of the schemas of this build has it under its id.
 * A row without one has a wrong name where the text is that of another.
 */
const asWritten = ({ id, name, avro, checksum }: Row): StoredSchema | undefined => {
  const stored = { id, name, avro }
  if (checksum === checksumOf(stored)) return stored
  const was = { id, name }
  for (let other = 1; checksum !== null && other <= MOST_IDS; other += 1)
    if (checksum === checksumOf({ id: other, name, avro })) return { id: other, name, avro, was }
  const found = ownSchemas().find(([known, text]) =>
    checksum === null ? known !== name && text === avro : checksum === checksumOf({ id, name: known, avro: text }),
  )
  if (found) return { id, name: found[0], avro: found[1], was }
  // The checksum itself changed.
  const isOwn = ownSchemas().some(([known, text]) => known === name && text === avro)
  return checksum === null || isOwn ? stored : undefined
}

const hasChecksums = (db: DatabaseSync): boolean =>
  db.prepare("SELECT 1 FROM pragma_table_info('schemas') WHERE name = 'checksum'").get() !== undefined

const rows = (db: DatabaseSync): Row[] =>
  db
    .prepare(`SELECT id, name, avro, ${hasChecksums(db) ? 'checksum' : 'NULL AS checksum'} FROM schemas ORDER BY id`)
    .all() as Row[]

/** Without those that changed on the disk to what nothing tells (`schemaLost`). */
export const storedSchemas = (db: DatabaseSync): StoredSchema[] => rows(db).flatMap((row) => asWritten(row) ?? [])

/** The error of an id that `storedSchemas` lacks. */
export const schemaLost = (db: DatabaseSync, id: number): InstarError => {
  const row = rows(db).find((one) => one.id === id)
  const why =
    row === undefined
      ? `records of the log have schema id ${id}, which the log does not define`
      : `schema ${id} of the log, whose name reads ${JSON.stringify(row.name)}, does not match its checksum: it changed after it was written, and this build has none that does; restore log.db from a copy`
  return new InstarError('data_unreadable', why, { schema: id })
}

/** What the console is told of rows that changed on the disk. */
export const schemaWarnings = (db: DatabaseSync): string[] =>
  rows(db).flatMap((row) => {
    const schema = asWritten(row)
    if (schema && !schema.was) return []
    const what = `WARNING: schema ${row.id} of the log, whose name reads ${JSON.stringify(row.name)}, changed on the disk`
    if (!schema) return `${what}: its records cannot be read`
    return `${what}: it is read as ${schema.id === row.id ? schema.name : `schema ${schema.id}, which it was`}`
  })

/** Adds schemas that the log lacks, and checksums to rows without. Throws `schema_changed`. */
export const addSchemas = (db: DatabaseSync, schemas: Readonly<Record<string, string>>): void => {
  if (!hasChecksums(db)) db.exec('ALTER TABLE schemas ADD COLUMN checksum INTEGER')
  const add = db.prepare('INSERT INTO schemas (id, name, avro) VALUES (?, ?, ?) ON CONFLICT DO NOTHING')
  // An id that a row had before it changed has records.
  let last = Math.max(0, ...rows(db).map(({ id }) => id), ...storedSchemas(db).map(({ id }) => id))
  for (const [name, text] of Object.entries(schemas)) if (add.run(last + 1, name, compact(text)).changes > 0) last += 1
  const stored = storedSchemas(db)
  const texts = new Map(stored.map(({ name, avro }) => [name, avro]))
  for (const [name, text] of Object.entries(schemas))
    if (texts.get(name) !== compact(text))
      throw new InstarError(
        'schema_changed',
        `the log has another schema named ${name}; a changed schema needs a new version`,
        { schema: name },
      )
  const setChecksum = db.prepare('UPDATE schemas SET checksum = ? WHERE id = ? AND checksum IS NULL')
  for (const schema of stored) setChecksum.run(checksumOf(schema), schema.id)
}
