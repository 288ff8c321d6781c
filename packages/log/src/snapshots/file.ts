/**
 * A SQLite file with the state of a service's folds. It is a cache of the log: a damaged file is deleted, and the log
 * is read again. One process has it open at a time.
 *
 * SQLite does not sync (synchronous = OFF), so that no statement waits for the disk. `flush` syncs between two commits,
 * off the event loop, in the order that a power failure requires: the write-ahead log before the checkpoint, the file
 * before the write-ahead log is reused.
 */
import { InstarError } from '@instar/events/errors'
import { rmSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import type { DatabaseSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'
import type { StateRow } from './digest.ts'
import {
  added,
  allOf,
  openTables,
  queueChecksum,
  statementsOf,
  tallyOf,
  textOf,
  verifyKeys,
  withChecksum,
  type Statements,
  type Tally,
} from './file-tables.ts'

/** Unused table names are deleted when there are more names than this, or than twice the number left the last time. */
const MIN_NAMES_TO_COLLECT = 1024
const EMPTY_NAMES = `FROM names WHERE NOT EXISTS (SELECT 1 FROM entries WHERE entries.name = names.id)
  AND NOT EXISTS (SELECT 1 FROM queued WHERE queued.name = names.id)`

export class SnapshotFile {
  readonly path: string
  readonly #db: DatabaseSync
  readonly #statements: Statements
  readonly #names = new Map<string, number>()
  readonly #tallies = new Map<number, Tally>()
  /** Names whose tally is not in the file. */
  readonly #changed = new Set<number>()
  #lastName = 0
  #lastSeq = 0
  #namesToCollect = MIN_NAMES_TO_COLLECT
  /** Open as long as the database, since closing a file handle releases all POSIX locks of the process on the file. */
  #handles: FileHandle[] = []

  /**
   * Opens or creates the file. Throws SQLite's error if it is locked (`isLocked`) or not a database. `verified` false: `verifying`
   * is to be run before it is used.
   */
  constructor(path: string, { verified = true }: { verified?: boolean } = {}) {
    this.path = path
    const db = openTables(path)
    try {
      this.#statements = statementsOf(db)
      this.#readNames(db)
      if (verified) for (const _ of verifyKeys(db, this.#names, this.#tallies));
    } catch (error) {
      db.close()
      throw error
    }
    this.#db = db
  }

  /** Reads all keys, in steps. Throws what is wrong with them. */
  verifying(): Iterable<void> {
    return verifyKeys(this.#db, this.#names, this.#tallies)
  }

  meta(name: string): string | undefined {
    const row = this.#read(() => this.#db.prepare('SELECT value FROM meta WHERE name = ?').get(name)) as
      | { value: string }
      | undefined
    if (!row) return undefined
    const value = row.value.slice(0, Math.max(0, row.value.lastIndexOf(' ')))
    if (row.value !== withChecksum(name, value)) throw this.damaged(`the value ${name} does not match its checksum`)
    return value
  }

  setMeta(name: string, value: string): void {
    this.#db
      .prepare('INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value')
      .run(name, withChecksum(name, value))
  }

  get(table: string, key: string): Uint8Array | undefined {
    const name = this.#names.get(table)
    if (name === undefined) return undefined
    const row = this.#read(() => this.#statements.get.get(name, key)) as unknown as [Uint8Array] | undefined
    return row && this.#verified(table, key, row[0])
  }

  has(table: string, key: string): boolean {
    const name = this.#names.get(table)
    return name !== undefined && this.#read(() => this.#statements.get.get(name, key)) !== undefined
  }

  /** `isNew`: the file probably has no such entry, so that it is not looked for first. */
  set(table: string, key: string, value: Uint8Array, isNew = false): void {
    const stored = Buffer.allocUnsafe(4 + value.length)
    stored.writeUInt32LE(checksumOf(table, key, value), 0)
    stored.set(value, 4)
    const name = this.#name(table)
    const { update, insert } = this.#statements
    if (!isNew && update.run(stored, name, key).changes !== 0) return
    if (insert.run(name, key, stored).changes !== 0) this.#count(name, 'entries', key, 1)
    else update.run(stored, name, key)
  }

  delete(table: string, key: string): void {
    const name = this.#name(table)
    if (this.#statements.delete.run(name, key).changes !== 0) this.#count(name, 'entries', key, -1)
  }

  /** Deletes all entries of a table, in one statement. */
  clear(table: string): void {
    const name = this.#names.get(table)
    if (name === undefined) return
    this.#db.prepare('DELETE FROM entries WHERE name = ?').run(name)
    this.#tallies.get(name)!.entries = [0, 0]
    this.#changed.add(name)
  }

  /** Up to 64 entries of a table after the key `after`, in the order of the keys. */
  entries(table: string, after: string): [key: string, value: Uint8Array][] {
    const name = this.#names.get(table)
    if (name === undefined) return []
    const rows = this.#read(() => this.#statements.entries.all(name, after)) as unknown as [string, Uint8Array][]
    return rows.map(([key, value]) => [key, this.#verified(table, key, value)])
  }

  queued(table: string, key: string): boolean {
    const name = this.#names.get(table)
    return name !== undefined && this.#read(() => this.#statements.queued.get(name, key)) !== undefined
  }

  enqueue(table: string, key: string): void {
    const name = this.#name(table)
    this.#lastSeq += 1
    this.#statements.enqueue.run(this.#lastSeq, name, key, queueChecksum(table, key, this.#lastSeq))
    this.#count(name, 'queued', key, 1)
  }

  dequeue(table: string, key: string): void {
    const name = this.#name(table)
    if (this.#statements.dequeue.run(name, key).changes !== 0) this.#count(name, 'queued', key, -1)
  }

  /** Up to 256 entries of a queue after the sequence number `after`, in order. */
  page(table: string, after: number): [seq: number, key: string][] {
    const name = this.#names.get(table)
    return name === undefined
      ? []
      : this.#queuedKeys(
          table,
          this.#read(() => this.#statements.page.all(name, after)),
        )
  }

  /** Up to `most` entries of a queue before the sequence number `before`, the last first. */
  pageBack(table: string, before: number, most: number): [seq: number, key: string][] {
    const name = this.#names.get(table)
    return name === undefined
      ? []
      : this.#queuedKeys(
          table,
          this.#read(() => this.#statements.pageBack.all(name, before, most)),
        )
  }

  count(table: string): number {
    const name = this.#names.get(table)
    return name === undefined ? 0 : (this.#read(() => this.#statements.count.get(name)) as unknown as [number])[0]
  }

  /** All entries, and those of queues, which must not change meanwhile. */
  *rows(): Generator<StateRow> {
    for (const table of [...this.#names.keys()].sort()) {
      const name = this.#names.get(table)!
      try {
        for (const [key, stored] of allOf(this.#db, 'key, value', 'entries', name))
          yield [table, key, this.#verified(table, key, stored)]
        for (const [key] of allOf(this.#db, 'key', 'queued', name)) yield [table, key, null]
      } catch (cause) {
        throw cause instanceof InstarError ? cause : this.damaged((cause as Error).message, cause)
      }
    }
  }

  /** The names of non-empty queues that start with `prefix`, sorted. By the names in memory, which were verified. */
  nonEmptyQueues(prefix: string): string[] {
    const isQueue = (name: string): boolean =>
      name.startsWith(prefix) && this.#read(() => this.#statements.anyQueued.get(this.#names.get(name)!)) !== undefined
    return [...this.#names.keys()].filter(isQueue).sort()
  }

  begin(): void {
    this.#db.exec('BEGIN')
  }

  commit(): void {
    this.#writeTallies()
    if (this.#names.size > this.#namesToCollect) this.#collectNames()
    this.#db.exec('COMMIT')
  }

  rollback(): void {
    if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
    // Names that were added in the transaction are not in the file.
    this.#readNames(this.#db)
  }

  /** Makes the last commit durable and writes it to the database file. Must not run during a transaction. */
  async flush(): Promise<void> {
    if (this.#handles.length === 0)
      this.#handles = await Promise.all([open(`${this.path}-wal`, 'r+'), open(this.path, 'r+')])
    const [log, file] = this.#handles
    await log?.datasync()
    this.#db.exec('PRAGMA wal_checkpoint(PASSIVE)')
    await file?.datasync()
  }

  async close(): Promise<void> {
    this.#writeTallies()
    this.#db.close()
    for (const handle of this.#handles.splice(0)) await handle.close()
  }

  #name(table: string): number {
    let name = this.#names.get(table)
    if (name === undefined) {
      name = this.#lastName += 1
      const tally = { entries: [0, 0], queued: [0, 0] } satisfies Tally
      this.#db.prepare('INSERT INTO names VALUES (?, ?, ?)').run(name, table, textOf(table, tally))
      this.#names.set(table, name)
      this.#tallies.set(name, tally)
    }
    return name
  }

  #count(name: number, of: keyof Tally, key: string, by: 1 | -1): void {
    const tally = this.#tallies.get(name)!
    tally[of] = added(tally[of], key, by)
    this.#changed.add(name)
  }

  #writeTallies(): void {
    if (this.#changed.size === 0) return
    const write = this.#db.prepare('UPDATE names SET tally = ? WHERE id = ?')
    for (const [table, name] of this.#names)
      if (this.#changed.has(name)) write.run(textOf(table, this.#tallies.get(name)!), name)
    this.#changed.clear()
  }

  #readNames(db: DatabaseSync): void {
    for (const map of [this.#names, this.#tallies, this.#changed]) map.clear()
    const rows = db.prepare('SELECT id, name, tally FROM names').all() as { id: number; name: string; tally: string }[]
    for (const { id, name, tally } of rows) {
      this.#names.set(name, id)
      this.#tallies.set(id, tallyOf(name, tally))
    }
    this.#lastName = Math.max(0, ...this.#tallies.keys())
    this.#lastSeq = (db.prepare('SELECT max(seq) AS seq FROM queued').get() as { seq: number | null }).seq ?? 0
  }

  /** Deletes unused names: queues have a name per version and key, so the number of emptied ones grows with the log. */
  #collectNames(): void {
    this.#db.exec(`DELETE ${EMPTY_NAMES}`)
    this.#readNames(this.#db)
    this.#namesToCollect = Math.max(MIN_NAMES_TO_COLLECT, 2 * this.#names.size)
  }

  #read<T>(query: () => T): T {
    try {
      return query()
    } catch (cause) {
      throw this.damaged((cause as Error).message, cause)
    }
  }

  /** Deletes the file, so that the next start does not use it, and returns the error `snapshot_damaged`. */
  damaged(problem: string, cause?: unknown): InstarError {
    removeSnapshot(this.path)
    return new InstarError('snapshot_damaged', `${this.path}: ${problem}`, { file: this.path }, { cause })
  }

  #queuedKeys(table: string, rows: unknown): [seq: number, key: string][] {
    return (rows as [number, string, number][]).map(([seq, key, checksum]) => {
      if (checksum !== queueChecksum(table, key, seq))
        throw this.damaged(`the entry ${seq} of the queue ${table} does not match its checksum`)
      return [seq, key]
    })
  }

  /** `stored`: of any type, which a bit in the row's header changes. */
  #verified(table: string, key: string, stored: unknown): Uint8Array {
    if (stored instanceof Uint8Array && stored.length >= 4) {
      const value = stored.subarray(4)
      const checksum = Buffer.from(stored.buffer, stored.byteOffset, 4).readUInt32LE(0)
      if (checksum === checksumOf(table, key, value)) return value
    }
    throw this.damaged(`the entry ${table} ${key} does not match its checksum`)
  }
}

/** The interface of a snapshot's file. */
export type FoldFile = Omit<SnapshotFile, 'verifying'>

/** CRC-32 of table, key and value. */
const checksumOf = (table: string, key: string, value: Uint8Array): number => crc32(value, crc32(`${table}\n${key}\n`))

/** Whether the error is SQLITE_BUSY: another process, or another opening in this one, has the file open. */
export const isLocked = (error: unknown): boolean =>
  error instanceof Error && 'errcode' in error && ((error.errcode as number) & 0xff) === 5

export const removeSnapshot = (path: string): void => {
  for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(`${path}${suffix}`, { force: true })
}
