/**
 * One SQLite file that holds a service's fold. It is a cache of the log: whatever is wrong with it, it is
 * deleted and folded again. One process has it open at a time.
 *
 * No statement waits for the disk: SQLite itself never syncs. The order that a power cut needs (the
 * write-ahead log on disk before the file is touched, the file on disk before the write-ahead log is used
 * again) is kept by `flush`, off the event loop, between two commits.
 */
import { InstarError } from '@instar/events/errors'
import { rmSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'

type Statements = Record<
  'get' | 'put' | 'drop' | 'entries' | 'queued' | 'enqueue' | 'dequeue' | 'page' | 'count' | 'filled',
  StatementSync
>

const LAYOUT = `
  CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
  CREATE TABLE IF NOT EXISTS entries (name INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL);
  CREATE UNIQUE INDEX IF NOT EXISTS entries_key ON entries (name, key);
  CREATE TABLE IF NOT EXISTS queued (seq INTEGER PRIMARY KEY AUTOINCREMENT, name INTEGER NOT NULL, key TEXT NOT NULL);
  CREATE UNIQUE INDEX IF NOT EXISTS queued_key ON queued (name, key);
  CREATE INDEX IF NOT EXISTS queued_seq ON queued (name, seq);`

/** Unused table names are collected at this count, and then at twice the count left the last time. */
const MANY_NAMES = 1024
const EMPTY_NAMES = `FROM names WHERE NOT EXISTS (SELECT 1 FROM entries WHERE entries.name = names.id)
  AND NOT EXISTS (SELECT 1 FROM queued WHERE queued.name = names.id)`

export class SnapshotFile {
  readonly path: string
  readonly #db: DatabaseSync
  readonly #statements: Statements
  readonly #names = new Map<string, number>()
  #lastName = 0
  #mostNames = MANY_NAMES
  /** Open as long as the database: closing any handle of a file releases the locks that the process holds on it. */
  #handles: FileHandle[] = []

  /** Throws SQLite's error: the file is locked (`isLocked`), or is not a database. */
  constructor(path: string) {
    this.path = path
    const db = new DatabaseSync(path, { timeout: 0 })
    try {
      // 8 MiB of pages in memory: the values that are in use are kept decoded elsewhere.
      db.exec(
        'PRAGMA locking_mode = EXCLUSIVE; PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -8192; PRAGMA cell_size_check = ON',
      )
      db.exec(`BEGIN EXCLUSIVE; ${LAYOUT} COMMIT`)
      const entry = 'FROM entries WHERE name = ? AND key = ?'
      const queued = 'FROM queued WHERE name = ?'
      this.#statements = {
        get: db.prepare(`SELECT value ${entry}`),
        put: db.prepare(
          'INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT (name, key) DO UPDATE SET value = excluded.value',
        ),
        drop: db.prepare(`DELETE ${entry}`),
        entries: db.prepare('SELECT key, value FROM entries WHERE name = ? AND key > ? ORDER BY key LIMIT 64'),
        queued: db.prepare(`SELECT 1 ${queued} AND key = ?`),
        enqueue: db.prepare('INSERT INTO queued (name, key) VALUES (?, ?)'),
        dequeue: db.prepare(`DELETE ${queued} AND key = ?`),
        page: db.prepare(`SELECT seq, key ${queued} AND seq > ? ORDER BY seq LIMIT 256`),
        count: db.prepare(`SELECT count(*) ${queued}`),
        filled: db.prepare(`SELECT name FROM names WHERE substr(name, 1, ?) = ?
          AND EXISTS (SELECT 1 FROM queued WHERE queued.name = names.id)`),
      }
      for (const statement of Object.values(this.#statements)) statement.setReturnArrays(true)
      this.#readNames(db)
    } catch (error) {
      db.close()
      throw error
    }
    this.#db = db
  }

  meta(name: string): string | undefined {
    return (
      this.#read(() => this.#db.prepare('SELECT value FROM meta WHERE name = ?').get(name)) as
        | { value: string }
        | undefined
    )?.value
  }

  setMeta(name: string, value: string): void {
    this.#db
      .prepare('INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value')
      .run(name, value)
  }

  get(table: string, key: string): Uint8Array | undefined {
    const name = this.#names.get(table)
    if (name === undefined) return undefined
    const row = this.#read(() => this.#statements.get.get(name, key)) as unknown as [Uint8Array] | undefined
    return row && this.#checked(table, key, row[0])
  }

  has(table: string, key: string): boolean {
    const name = this.#names.get(table)
    return name !== undefined && this.#read(() => this.#statements.get.get(name, key)) !== undefined
  }

  put(table: string, key: string, value: Uint8Array): void {
    const sealed = Buffer.allocUnsafe(4 + value.length)
    sealed.writeUInt32LE(sumOf(table, key, value), 0)
    sealed.set(value, 4)
    this.#statements.put.run(this.#name(table), key, sealed)
  }

  drop(table: string, key: string): void {
    this.#statements.drop.run(this.#name(table), key)
  }

  /** Some of a table, in the order of the keys, behind `after`. */
  entries(table: string, after: string): [key: string, value: Uint8Array][] {
    const name = this.#names.get(table)
    if (name === undefined) return []
    const rows = this.#read(() => this.#statements.entries.all(name, after)) as unknown as [string, Uint8Array][]
    return rows.map(([key, value]) => [key, this.#checked(table, key, value)])
  }

  queued(table: string, key: string): boolean {
    const name = this.#names.get(table)
    return name !== undefined && this.#read(() => this.#statements.queued.get(name, key)) !== undefined
  }

  enqueue(table: string, key: string): void {
    this.#statements.enqueue.run(this.#name(table), key)
  }

  dequeue(table: string, key: string): void {
    this.#statements.dequeue.run(this.#name(table), key)
  }

  /** Some of a queue, in order, behind `after`. */
  page(table: string, after: number): [seq: number, key: string][] {
    const name = this.#names.get(table)
    return name === undefined
      ? []
      : (this.#read(() => this.#statements.page.all(name, after)) as unknown as [number, string][])
  }

  count(table: string): number {
    const name = this.#names.get(table)
    return name === undefined ? 0 : (this.#read(() => this.#statements.count.get(name)) as unknown as [number])[0]
  }

  /** Names of the queues that hold something and begin with `prefix`. */
  filled(prefix: string): string[] {
    const rows = this.#read(() => this.#statements.filled.all(prefix.length, prefix)) as unknown as [string][]
    return rows.map(([name]) => name)
  }

  begin(): void {
    this.#db.exec('BEGIN')
  }

  commit(): void {
    if (this.#names.size > this.#mostNames) this.#forgetNames()
    this.#db.exec('COMMIT')
  }

  rollback(): void {
    if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
    // Names that were given in what was rolled back are not in the file.
    this.#readNames(this.#db)
  }

  /** Makes the last commit durable and takes it over into the file. Between two transactions only. */
  async flush(): Promise<void> {
    if (this.#handles.length === 0)
      this.#handles = await Promise.all([open(`${this.path}-wal`, 'r+'), open(this.path, 'r+')])
    const [log, file] = this.#handles
    await log?.datasync()
    this.#db.exec('PRAGMA wal_checkpoint(PASSIVE)')
    await file?.datasync()
  }

  async close(): Promise<void> {
    this.#db.close()
    for (const handle of this.#handles.splice(0)) await handle.close()
  }

  #name(table: string): number {
    let name = this.#names.get(table)
    if (name === undefined) {
      name = this.#lastName += 1
      this.#db.prepare('INSERT INTO names VALUES (?, ?)').run(name, table)
      this.#names.set(table, name)
    }
    return name
  }

  #readNames(db: DatabaseSync): void {
    this.#names.clear()
    for (const { id, name } of db.prepare('SELECT id, name FROM names').all() as { id: number; name: string }[])
      this.#names.set(name, id)
    this.#lastName = Math.max(0, ...this.#names.values())
  }

  /** A queue has a name of its own for each version and key: emptied ones would add up for as long as the log does. */
  #forgetNames(): void {
    this.#db.exec(`DELETE ${EMPTY_NAMES}`)
    this.#readNames(this.#db)
    this.#mostNames = Math.max(MANY_NAMES, 2 * this.#names.size)
  }

  #read<T>(query: () => T): T {
    try {
      return query()
    } catch (cause) {
      throw this.#damaged((cause as Error).message, cause)
    }
  }

  /** The next start must not find it again, however this process ends. */
  #damaged(what: string, cause?: unknown): InstarError {
    removeSnapshot(this.path)
    return new InstarError('snapshot_damaged', `${this.path}: ${what}`, { file: this.path }, { cause })
  }

  #checked(table: string, key: string, sealed: Uint8Array): Uint8Array {
    const value = sealed.subarray(4)
    const sum = sealed.length < 4 ? Number.NaN : Buffer.from(sealed.buffer, sealed.byteOffset, 4).readUInt32LE(0)
    if (sum !== sumOf(table, key, value)) throw this.#damaged(`the entry ${table} ${key} does not have its checksum`)
    return value
  }
}

/** What a snapshot asks of its file. */
export type FoldFile = Pick<SnapshotFile, keyof SnapshotFile>

const sumOf = (table: string, key: string, value: Uint8Array): number => crc32(value, crc32(`${table}\n${key}\n`))

/** Another process, or another opening in this one, has it. */
export const isLocked = (error: unknown): boolean =>
  error instanceof Error && 'errcode' in error && ((error.errcode as number) & 0xff) === 5

export const removeSnapshot = (path: string): void => {
  for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(`${path}${suffix}`, { force: true })
}
