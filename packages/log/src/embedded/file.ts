/**
 * The file `log.db`: one table per topic, whose rowid is the offset, so that a topic is appended at one
 * place, read in one sweep, and its offsets grow within every partition.
 */
import { InstarError } from '@instar/events/errors'
import { FLOW, TOPICS, type Topic } from '@instar/events/flow'
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { blockTable, fillBlocks } from './blocks.ts'
import { ownOnly } from '../own-only.ts'
import type { PartitionCounts } from '../partition.ts'

const FORMAT = '2'

const logFile = (folder: string): string => join(folder, 'log.db')
const lockFile = (folder: string): string => join(folder, 'log.lock')

/** What the writing connection sets; the benchmark's raw SQLite sets the same. */
export const WRITE_PRAGMAS = `
  PRAGMA page_size = 8192;
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  PRAGMA wal_autocheckpoint = 2000;
  PRAGMA journal_size_limit = 67108864;
`

/**
 * `reached` is the greatest timestamp of the partition up to and with the row: it never falls, so the first
 * record since a time is found by bisection, without an index on timestamps.
 */
const topicTable = (topic: Topic): string => `
  CREATE TABLE IF NOT EXISTS "${topic}" (
    offset INTEGER PRIMARY KEY, partition INTEGER NOT NULL, timestamp INTEGER NOT NULL, reached INTEGER NOT NULL,
    schema INTEGER NOT NULL, key TEXT NOT NULL, payload BLOB NOT NULL) STRICT;
  ${blockTable(topic)}
`

const TABLES = `
  CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS partitions (topic TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS schemas (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, avro TEXT NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS commits (
    "group" TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL,
    PRIMARY KEY ("group", topic, partition)) STRICT, WITHOUT ROWID;
  ${TOPICS.map(topicTable).join('')}
`

/**
 * Makes the folder, for its owner alone: conversations are in it. The folders above keep the permissions that
 * they have, since PostgreSQL's, beside this one, may belong to another user. Throws `data_unreadable`.
 */
export const makeFolder = (folder: string): void => {
  try {
    mkdirSync(dirname(folder), { recursive: true })
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    ownOnly(folder, 0o700)
  } catch (cause) {
    throw new InstarError(
      'data_unreadable',
      `${folder} cannot be made: ${(cause as Error).message}`,
      { folder },
      { cause },
    )
  }
}

/** SQLite gives the files beside a database the permissions of the database. */
const makePrivate = (file: string): void => {
  closeSync(openSync(file, 'a', 0o600))
  for (const path of [file, `${file}-wal`, `${file}-shm`]) if (existsSync(path)) ownOnly(path, 0o600)
}

const BUSY = 5

/**
 * Holds the folder for this process: a lock of the operating system, which ends with the process however it
 * ends. Throws `data_in_use` when another one has it, `data_unreadable` when it cannot be locked at all.
 */
export const lockFolder = (folder: string): DatabaseSync => {
  let lock: DatabaseSync | undefined
  try {
    makePrivate(lockFile(folder))
    lock = new DatabaseSync(lockFile(folder), { timeout: 0 })
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
    return lock
  } catch (cause) {
    lock?.close()
    const { errcode, message } = cause as Error & { errcode?: number }
    if (errcode !== undefined && (errcode & 0xff) === BUSY)
      throw new InstarError(
        'data_in_use',
        `another process${writerOf(folder)} writes to ${folder}`,
        { folder },
        { cause },
      )
    throw new InstarError('data_unreadable', `${lockFile(folder)} cannot be locked: ${message}`, { folder }, { cause })
  }
}

const writerOf = (folder: string): string => {
  try {
    using db = openReading(folder)
    const row = db.prepare('SELECT value FROM meta WHERE name = ?').get('writer') as { value: string } | undefined
    return row ? ` (pid ${row.value})` : ''
  } catch {
    return ''
  }
}

/**
 * Makes the file where there is none. Throws `partition_count_changed`, `schema_changed`, `log_truncated` or
 * `data_unreadable`.
 */
export const openWriting = (
  folder: string,
  counts: PartitionCounts,
  schemas: Readonly<Record<string, string>>,
): DatabaseSync => {
  let db: DatabaseSync | undefined
  try {
    makePrivate(logFile(folder))
    db = new DatabaseSync(logFile(folder), { timeout: 5000 })
    db.exec(WRITE_PRAGMAS)
    db.exec('BEGIN IMMEDIATE')
    db.exec(TABLES)
    const meta = db.prepare('INSERT INTO meta VALUES (?, ?) ON CONFLICT DO NOTHING')
    meta.run('format', FORMAT)
    if (formatOf(db) === '1') upgrade(db)
    checkFormat(db, folder)
    db.prepare('INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value').run(
      'writer',
      String(process.pid),
    )
    const addCount = db.prepare('INSERT INTO partitions VALUES (?, ?) ON CONFLICT DO NOTHING')
    for (const topic of TOPICS) addCount.run(topic, counts[topic])
    checkCounts(storedCounts(db), counts)
    checkBeginnings(db)
    addSchemas(db, schemas)
    db.exec('COMMIT')
    return db
  } catch (cause) {
    db?.close()
    throw cause instanceof InstarError ? cause : unreadable(folder, cause)
  }
}

/** Throws `data_unreadable` when the folder holds no log of this format, `log_truncated` when its first records are gone. */
export const openReading = (folder: string): DatabaseSync => {
  let db: DatabaseSync | undefined
  try {
    db = new DatabaseSync(logFile(folder), { readOnly: true, timeout: 5000 })
    checkFormat(db, folder)
    standIn(db)
    checkBeginnings(db)
    return db
  } catch (cause) {
    db?.close()
    throw cause instanceof InstarError ? cause : unreadable(folder, cause)
  }
}

/** A file that no build with all of our topics has written to lacks tables, which a reader sees as empty. */
const standIn = (db: DatabaseSync): void => {
  const stored = new Set(
    (db.prepare('SELECT topic FROM partitions').all() as { topic: string }[]).map(({ topic }) => topic),
  )
  for (const topic of TOPICS)
    if (!stored.has(topic)) db.exec(topicTable(topic).replaceAll('CREATE TABLE', 'CREATE TEMP TABLE'))
}

/** Records are never deleted: a topic whose first offset is not 0 tells another history than all of it. */
const checkBeginnings = (db: DatabaseSync): void => {
  for (const topic of TOPICS) {
    const { first } = db.prepare(`SELECT min(offset) AS first FROM "${topic}"`).get() as { first: number | null }
    if (first !== null && first > 0)
      throw new InstarError('log_truncated', `${topic} begins at ${first}: the ${first} records before it are gone`, {
        topic,
        first,
      })
  }
}

const unreadable = (folder: string, cause: unknown): InstarError =>
  new InstarError(
    'data_unreadable',
    `${logFile(folder)} cannot be read as a log: ${cause instanceof Error ? cause.message : String(cause)}`,
    { folder },
    { cause },
  )

const formatOf = (db: DatabaseSync): string | undefined =>
  (db.prepare('SELECT value FROM meta WHERE name = ?').get('format') as { value: string } | undefined)?.value

const checkFormat = (db: DatabaseSync, folder: string): void => {
  const format = formatOf(db)
  if (format === '1') throw unreadable(folder, 'it is of an earlier build: start the pipeline on it once')
  if (format !== FORMAT) throw unreadable(folder, `its format is ${format ?? 'not named'}, this build reads ${FORMAT}`)
}

/** Format 1 had an SQL index on the partition where 2 has blocks. */
const upgrade = (db: DatabaseSync): void => {
  for (const topic of TOPICS) {
    fillBlocks(db, topic)
    db.exec(`DROP INDEX IF EXISTS "${topic}_partition"`)
  }
  db.prepare('UPDATE meta SET value = ? WHERE name = ?').run(FORMAT, 'format')
}

export const storedCounts = (db: DatabaseSync): PartitionCounts => {
  const rows = db.prepare('SELECT topic, count FROM partitions').all() as { topic: Topic; count: number }[]
  const stored = Object.fromEntries(rows.map(({ topic, count }) => [topic, count])) as Partial<PartitionCounts>
  return Object.fromEntries(TOPICS.map((topic) => [topic, stored[topic] ?? FLOW[topic].partitions])) as PartitionCounts
}

export const checkCounts = (stored: PartitionCounts, configured: PartitionCounts): void => {
  for (const topic of TOPICS) {
    if (stored[topic] === configured[topic]) continue
    throw new InstarError(
      'partition_count_changed',
      `${topic} has ${stored[topic]} partitions on this log, ${configured[topic]} are configured`,
      { topic, stored: stored[topic], configured: configured[topic] },
    )
  }
}

const addSchemas = (db: DatabaseSync, schemas: Readonly<Record<string, string>>): void => {
  const add = db.prepare('INSERT INTO schemas (name, avro) VALUES (?, ?) ON CONFLICT DO NOTHING')
  const stored = db.prepare('SELECT avro FROM schemas WHERE name = ?')
  for (const [name, text] of Object.entries(schemas)) {
    const avro = JSON.stringify(JSON.parse(text))
    add.run(name, avro)
    if ((stored.get(name) as { avro: string }).avro !== avro)
      throw new InstarError('schema_changed', `the log stores another schema as ${name}`, { schema: name })
  }
}

type StoredSchema = { id: number; name: string; avro: string }

export const storedSchemas = (db: DatabaseSync): StoredSchema[] =>
  db.prepare('SELECT id, name, avro FROM schemas ORDER BY id').all() as StoredSchema[]
