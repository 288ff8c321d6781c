/** The tables of a snapshot's file, and what is known of their rows, so that a missing or changed row is found. */
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, tally TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS entries (name INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL);
  CREATE UNIQUE INDEX IF NOT EXISTS entries_key ON entries (name, key);
  CREATE TABLE IF NOT EXISTS queued (seq INTEGER PRIMARY KEY, name INTEGER NOT NULL, key TEXT NOT NULL, checksum INTEGER NOT NULL);
  CREATE UNIQUE INDEX IF NOT EXISTS queued_key ON queued (name, key);
  CREATE INDEX IF NOT EXISTS queued_seq ON queued (name, seq);
  PRAGMA user_version = 2;`
const VERSION = 2
const TABLES = ['meta', 'names', 'entries', 'queued'] as const

/** Opens the file, locked. Tables of another form, which another build wrote, are dropped. */
export const openTables = (path: string): DatabaseSync => {
  const db = new DatabaseSync(path, { timeout: 0 })
  try {
    // A page cache of 8 MiB, since values in use are cached decoded by the tables.
    db.exec(
      'PRAGMA locking_mode = EXCLUSIVE; PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -8192; PRAGMA cell_size_check = ON',
    )
    const { user_version: version } = db.prepare('PRAGMA user_version').get() as { user_version: number }
    const other = version === VERSION ? '' : TABLES.map((table) => `DROP TABLE IF EXISTS ${table};`).join(' ')
    db.exec(`BEGIN EXCLUSIVE; ${other} ${SCHEMA} COMMIT`)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

export type Statements = Record<
  | 'get'
  | 'update'
  | 'insert'
  | 'delete'
  | 'entries'
  | 'queued'
  | 'enqueue'
  | 'dequeue'
  | 'page'
  | 'pageBack'
  | 'count'
  | 'anyQueued',
  StatementSync
>

export const statementsOf = (db: DatabaseSync): Statements => {
  const entry = 'FROM entries WHERE name = ? AND key = ?'
  const queued = 'FROM queued WHERE name = ?'
  const statements: Statements = {
    get: db.prepare(`SELECT value ${entry}`),
    update: db.prepare(`UPDATE entries SET value = ? WHERE name = ? AND key = ?`),
    insert: db.prepare('INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT (name, key) DO NOTHING'),
    delete: db.prepare(`DELETE ${entry}`),
    entries: db.prepare('SELECT key, value FROM entries WHERE name = ? AND key > ? ORDER BY key LIMIT 64'),
    queued: db.prepare(`SELECT 1 ${queued} AND key = ?`),
    enqueue: db.prepare('INSERT INTO queued VALUES (?, ?, ?, ?)'),
    dequeue: db.prepare(`DELETE ${queued} AND key = ?`),
    page: db.prepare(`SELECT seq, key, checksum ${queued} AND seq > ? ORDER BY seq LIMIT 256`),
    pageBack: db.prepare(`SELECT seq, key, checksum ${queued} AND seq < ? ORDER BY seq DESC LIMIT ?`),
    count: db.prepare(`SELECT count(*) ${queued}`),
    anyQueued: db.prepare(`SELECT 1 ${queued} LIMIT 1`),
  }
  for (const statement of Object.values(statements)) statement.setReturnArrays(true)
  return statements
}

/** The rows of one name in the order of their keys. */
export const allOf = (
  db: DatabaseSync,
  columns: string,
  table: 'entries' | 'queued',
  name: number,
): Iterable<[key: string, value?: Uint8Array]> => {
  const statement = db.prepare(`SELECT ${columns} FROM ${table} WHERE name = ? ORDER BY key`)
  statement.setReturnArrays(true)
  return statement.iterate(name) as unknown as Iterable<[string, Uint8Array?]>
}

export const KEYS_OF_STEP = 256

/**
 * Reads all keys, and the queues whole: a row that is missing, or has another key, name or place, would otherwise be taken
 * for none. Values are compared with their checksums as they are read. So are the indexes by which entries are found, which
 * SQLite does not compare with their table as it reads them. A step reads KEYS_OF_STEP keys. Throws what is wrong.
 */
export const verifyKeys = function* (
  db: DatabaseSync,
  names: ReadonlyMap<string, number>,
  tallies: ReadonlyMap<number, Tally>,
): Generator<void> {
  const found = new Map<number, Tally>([...tallies.keys()].map((id) => [id, { entries: [0, 0], queued: [0, 0] }]))
  const tableOf = new Map([...names].map(([table, id]) => [id, table]))
  let read = 0
  /** Whether a step ends with this key. */
  const add = (name: number, of: keyof Tally, key: unknown): boolean => {
    const tally = found.get(name)?.[of]
    if (!tally || typeof key !== 'string') throw new Error('an entry belongs to no table of the snapshot')
    tally[0] += 1
    tally[1] = (tally[1] + crc32(key)) >>> 0
    read += 1
    return read % KEYS_OF_STEP === 0
  }
  const rows = <Row>(sql: string): Iterable<Row> => {
    const statement = db.prepare(sql)
    statement.setReturnArrays(true)
    return statement.iterate() as unknown as Iterable<Row>
  }
  for (const [name, key] of rows<[number, string]>('SELECT name, key FROM entries INDEXED BY entries_key'))
    if (add(name, 'entries', key)) yield
  const queued = rows<[number, string, number, unknown]>('SELECT name, key, seq, checksum FROM queued NOT INDEXED')
  for (const [name, key, seq, checksum] of queued) {
    if (add(name, 'queued', key)) yield
    if (checksum !== queueChecksum(tableOf.get(name) ?? '', key, seq))
      throw new Error(`the entry ${seq} of a queue does not match its checksum`)
  }
  const [indexed] = rows<[string]>('PRAGMA integrity_check(queued)')
  if (indexed?.[0] !== 'ok') throw new Error(`the indexes of the queues do not match them: ${indexed?.[0]}`)
  for (const [table, id] of names)
    if (textOf(table, found.get(id)!) !== textOf(table, tallies.get(id)!))
      throw new Error(`entries of ${table} are missing or have other keys than those that were written`)
}

export const queueChecksum = (queue: string, key: string, seq: number): number => crc32(`${queue}\n${key}\n${seq}`)

/** A text as the file has it: with the CRC-32 of its name and the text. */
export const withChecksum = (name: string, text: string): string => `${text} ${crc32(`${name}\n${text}`).toString(16)}`

/** Of the rows of one name: their number, and the sum of the CRC-32 of their keys modulo 2^32. */
export type Tally = Record<'entries' | 'queued', [count: number, sum: number]>

export const added = ([count, sum]: Tally['entries'], key: string, by: 1 | -1): Tally['entries'] => [
  count + by,
  (sum + by * crc32(key)) >>> 0,
]
export const textOf = (table: string, { entries, queued }: Tally): string =>
  withChecksum(table, [...entries, ...queued].join(' '))

/** Throws for a text that `textOf` did not give for this name. */
export const tallyOf = (table: string, text: string): Tally => {
  const [count = 0, sum = 0, queuedCount = 0, queuedSum = 0] = text.split(' ').map(Number)
  const tally: Tally = { entries: [count, sum], queued: [queuedCount, queuedSum] }
  if (textOf(table, tally) !== text) throw new Error(`the name ${table} does not match its checksum`)
  return tally
}
