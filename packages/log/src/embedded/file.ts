/**
 * The SQLite file `log.db`: its tables, its checks at opening and its lock. Each topic is a table whose rowid is the
 * offset, so that appends go to the end of one B-tree and a topic is read sequentially.
 */
import { InstarError } from '@instar/events/errors'
import { FLOW, TOPICS, type Topic } from '@instar/events/flow'
import { accessSync, closeSync, constants, existsSync, mkdirSync, openSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { blockTable, fillBlocks } from './blocks.ts'
import { checkStarts } from './cut.ts'
import { checkEnds } from './ends.ts'
import { metaWriter } from './meta.ts'
import { addChecksums } from './checksum.ts'
import { restrictMode } from '../permissions.ts'
import { logFile, markMade, requireFile, requireTables, unreadable } from './presence.ts'
import { addSchemas, SCHEMA_TABLE } from './schemas.ts'
import type { PartitionCounts } from '../partition.ts'

/** The version of the file format. */
const FORMAT = '2'

const lockFile = (folder: string): string => join(folder, 'log.lock')
/** The pragmas of the writing connection. The benchmark of raw SQLite uses the same. */
export const WRITE_PRAGMAS = `
  PRAGMA page_size = 8192;
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  PRAGMA wal_autocheckpoint = 2000;
  PRAGMA journal_size_limit = 67108864;
`

/**
 * `reached` is the greatest timestamp of the partition up to and including the row. It never decreases, so the first
 * record since a time is found by binary search, without an index on timestamps. `checksum`: see checksum.ts; null in a
 * row of an earlier build.
 */
const topicTable = (topic: Topic): string => `
  CREATE TABLE IF NOT EXISTS "${topic}" (
    offset INTEGER PRIMARY KEY, partition INTEGER NOT NULL, timestamp INTEGER NOT NULL, reached INTEGER NOT NULL,
    schema INTEGER NOT NULL, key TEXT NOT NULL, payload BLOB NOT NULL, checksum INTEGER) STRICT;
  ${blockTable(topic)}
`

const TABLES = `
  CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS partitions (topic TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  ${SCHEMA_TABLE}
  CREATE TABLE IF NOT EXISTS commits (
    "group" TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL,
    PRIMARY KEY ("group", topic, partition)) STRICT, WITHOUT ROWID;
  ${TOPICS.map(topicTable).join('')}
`

/**
 * Creates the folder with mode 0700, since it contains conversations. Parent folders keep their permissions: the folder
 * of PostgreSQL in the same parent may belong to another user. Throws `data_unreadable`.
 */
export const createFolder = (folder: string): void => {
  try {
    mkdirSync(dirname(folder), { recursive: true })
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    restrictMode(folder, 0o700)
  } catch (cause) {
    throw new InstarError(
      'data_unreadable',
      `the folder ${folder} cannot be created: ${(cause as Error).message}`,
      { folder },
      { cause },
    )
  }
}

/**
 * Creates the file with mode 0600. SQLite gives its -wal and -shm files the permissions of the database. An existing file
 * is not opened, since closing it would release the POSIX locks that this process has on it.
 */
const makePrivate = (file: string): void => {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  for (const path of [file, `${file}-wal`, `${file}-shm`]) if (existsSync(path)) restrictMode(path, 0o600)
}

/** SQLITE_BUSY. */
const BUSY = 5

/**
 * Locks the folder for this process with a lock of the operating system, which is released when the process exits in
 * any way. Throws `data_in_use` if another process has the lock, `data_unreadable` if the lock file cannot be used.
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
        `another process${writerOf(folder)} has ${folder} open for writing`,
        { folder },
        { cause },
      )
    throw new InstarError('data_unreadable', `${lockFile(folder)} cannot be locked: ${message}`, { folder }, { cause })
  }
}

/** ` (pid N)` of the process that last opened the log for writing; '' if unknown. */
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
 * Opens the file for writing, creating or upgrading it. Throws `partition_count_changed`, `schema_changed`,
 * `log_truncated` or `data_unreadable`.
 */
export const openWriting = (
  folder: string,
  counts: PartitionCounts,
  schemas: Readonly<Record<string, string>>,
): DatabaseSync => {
  let db: DatabaseSync | undefined
  try {
    requireFile(folder)
    makePrivate(logFile(folder))
    db = new DatabaseSync(logFile(folder), { timeout: 5000 })
    db.exec(WRITE_PRAGMAS)
    db.exec('BEGIN IMMEDIATE')
    requireTables(db, folder)
    db.exec(TABLES)
    const meta = db.prepare('INSERT INTO meta VALUES (?, ?) ON CONFLICT DO NOTHING')
    meta.run('format', FORMAT)
    if (formatOf(db) === '1') upgrade(db)
    checkFormat(db, folder)
    for (const topic of TOPICS) addChecksums(db, topic)
    metaWriter(db)('writer', String(process.pid))
    const addCount = db.prepare('INSERT INTO partitions VALUES (?, ?) ON CONFLICT DO NOTHING')
    for (const topic of TOPICS) addCount.run(topic, counts[topic])
    checkCounts(storedCounts(db), counts)
    checkStarts(db, storedCounts(db))
    checkEnds(db)
    addSchemas(db, schemas)
    db.exec('COMMIT')
    markMade(folder)
    return db
  } catch (cause) {
    db?.close()
    throw cause instanceof InstarError ? cause : unreadable(folder, cause)
  }
}

/** Opens the file for reading. Throws `data_unreadable` if it is no log of this format, `log_truncated`. */
export const openReading = (folder: string): DatabaseSync => {
  let db: DatabaseSync | undefined
  try {
    requireFile(folder)
    db = openFile(logFile(folder))
    checkFormat(db, folder)
    addMissingTables(db)
    // At one moment: the writer may be cutting.
    db.exec('BEGIN')
    checkStarts(db, storedCounts(db))
    checkEnds(db)
    db.exec('COMMIT')
    return db
  } catch (cause) {
    db?.close()
    throw cause instanceof InstarError ? cause : unreadable(folder, cause)
  }
}

/**
 * On a read-only file system SQLite cannot create the index of the write-ahead log, which a log that was closed in order
 * does not need: nobody can write to it there, so it is read as immutable.
 */
const openFile = (file: string): DatabaseSync => {
  const isImmutable = isReadOnly(dirname(file)) && !existsSync(`${file}-wal`)
  const path = pathToFileURL(file)
  if (isImmutable) path.searchParams.set('immutable', '1')
  return new DatabaseSync(isImmutable ? path : file, { readOnly: true, timeout: 5000 })
}

const isReadOnly = (folder: string): boolean => {
  try {
    accessSync(folder, constants.W_OK)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EROFS'
  }
}

/** Adds empty temporary tables for topics that the file lacks because an earlier build wrote it. */
const addMissingTables = (db: DatabaseSync): void => {
  const stored = new Set(
    (db.prepare('SELECT topic FROM partitions').all() as { topic: string }[]).map(({ topic }) => topic),
  )
  for (const topic of TOPICS)
    if (!stored.has(topic)) db.exec(topicTable(topic).replaceAll('CREATE TABLE', 'CREATE TEMP TABLE'))
}

const formatOf = (db: DatabaseSync): string | undefined =>
  (db.prepare('SELECT value FROM meta WHERE name = ?').get('format') as { value: string } | undefined)?.value

const checkFormat = (db: DatabaseSync, folder: string): void => {
  const format = formatOf(db)
  if (format === '1')
    throw unreadable(
      folder,
      'it has format 1 of an earlier build; open it for writing once (`instar up`) to upgrade it',
    )
  if (format !== FORMAT) throw unreadable(folder, `its format is ${format ?? 'unknown'}, this build reads ${FORMAT}`)
}

/** Upgrades format 1, with an SQL index on the partition, to format 2, with blocks. */
const upgrade = (db: DatabaseSync): void => {
  const counts = storedCounts(db)
  for (const topic of TOPICS) {
    fillBlocks(db, topic, counts[topic])
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
      `topic ${topic} has ${stored[topic]} partitions on this log, but ${configured[topic]} are configured`,
      { topic, stored: stored[topic], configured: configured[topic] },
    )
  }
}
