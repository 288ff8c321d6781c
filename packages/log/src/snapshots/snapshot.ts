/**
 * The snapshot of a service's folds in a file, with their position on the log: for each partition the next offset and
 * the id of the last record. State and position are written in one transaction, so that they always match. A file of
 * another version of the folds that no migrations lead to the present one, or of another log, is deleted.
 */
import { InstarError, recordId, type Keys, type Logged, type Queue, type Queues, type Table } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { restrictMode } from '../permissions.ts'
import type { EventLog, Offsets } from '../port.ts'
import { bySession, rowOptions, type Row, type TurnTableOptions } from './by-session.ts'
import { isLocked, removeSnapshot, SnapshotFile, type FoldFile } from './file.ts'
import { Mirror, type MirroredState } from './mirror.ts'
import { ResidentQueue, StoredQueue, StoredQueues } from './queue.ts'
import { SessionTable } from './session-table.ts'
import { inSlices } from './slices.ts'
import {
  keysOf,
  ResidentTable,
  SpilledTable,
  type FileRef,
  type WorkStep,
  type SnapshotPart,
  type TableOptions,
} from './tables.ts'
import { migrationsFrom, versionText, type Migration, type StateVersion } from './version.ts'

export type SnapshotSettings = {
  folder: string
  /** A snapshot is taken after this many records or milliseconds, whichever comes first. */
  records: number
  ms: number
  /** Weight of the entries that a `SpilledTable` caches in memory (1 each unless the table defines weights). */
  cacheWeight: number
  /** Called with a message when a file cannot be used or written. */
  logLine: (line: string) => void
  /** Turns of one session in a row, at most. */
  rowTurns?: number
  /** Replaces the file in the folder by one in memory, by name. For simulations. */
  file?: (name: string) => FoldFile
}

export type FoldedRecord = Pick<Logged, 'topic' | 'partition' | 'offset' | 'id'>
type PartitionPosition = { next: number; id: string }

/** A snapshot may be delayed by the flush of the one before it until this many times `records` are unsaved. */
const MAX_OVERDUE = 4
/** Maximum number of files of one service in a folder, one for each process. */
const MAX_FILES = 32

/** Turns of a session in a row. */
export const ROW_TURNS = 128

const flatten = function* (all: readonly Iterable<WorkStep>[]): Iterable<WorkStep> {
  for (const steps of all) yield* steps
}

export class Snapshot {
  readonly #settings: SnapshotSettings
  readonly #name: string
  readonly #version: string | StateVersion
  readonly #fileRef: FileRef = { file: null }
  readonly #parts: SnapshotPart[] = []
  readonly #rowTurns: number
  #sessions: SessionTable | undefined
  readonly #positions = new Map<Topic, Map<number, PartitionPosition>>()
  /** Resolves when the last snapshot is on disk. */
  #flushing: Promise<void> = Promise.resolve()
  #isFlushing = false
  #unsavedRecords = 0
  #savedAt = 0
  #ended = false

  /** `version`: of the folds, which a file must match or be migrated to. No file is accessed before `open`. */
  constructor(settings: SnapshotSettings, name: string, version: string | StateVersion) {
    this.#settings = settings
    this.#name = name
    this.#version = version
    this.#rowTurns = settings.rowTurns ?? ROW_TURNS
  }

  /** Of the open file; null without one. */
  get path(): string | null {
    return this.#fileRef.file?.path ?? null
  }

  get sessions(): SessionTable {
    const { cacheWeight } = this.#settings
    return (this.#sessions ??= this.#addPart(new SessionTable(this.#fileRef, 'sessions', cacheWeight, this.#rowTurns)))
  }

  /**
   * Reads a long session into memory in slices, so that folding a record of it, or a request, does not hold the event
   * loop. Undefined if there is nothing to wait for.
   */
  load(session: string): Promise<void> | undefined {
    return this.#sessions?.load(session)
  }

  bySession<V>(name: string, options: TurnTableOptions<V> = {}): Table<string, V> {
    const further = { ...options, json: () => options.json ?? false }
    return bySession(
      this.table<Row<V>>(name, rowOptions(options)),
      this.table<V>(`further ${name}`, further),
      this.#rowTurns,
    )
  }

  table<V>(name: string, options: TableOptions<V> = {}): Table<string, V> {
    return this.#addPart(new SpilledTable<V>(this.#fileRef, name, this.#settings.cacheWeight, options))
  }

  resident<V>(name: string): ResidentTable<V> {
    return this.#addPart(new ResidentTable<V>(this.#fileRef, name))
  }

  queue(name: string): Queue {
    return this.#addPart(new StoredQueue(this.#fileRef, name))
  }

  /** A queue of few keys, kept in memory. */
  shortQueue(name: string): Queue {
    return this.#addPart(new ResidentQueue(this.#fileRef, name))
  }

  queues(name: string): Queues {
    return this.#addPart(new StoredQueues(this.#fileRef, name))
  }

  mirror(name: string, state: MirroredState): Mirror {
    return this.#addPart(new Mirror(this.#fileRef, name, state))
  }

  keys(name: string): Keys {
    return keysOf(this.table<true>(name))
  }

  /** Opens the file. Resolves with the positions to continue from; {} if there is no matching file. */
  async open(log: EventLog): Promise<Offsets> {
    const file = this.#openFile()
    this.#fileRef.file = file
    this.#savedAt = performance.now()
    if (!file) return {}
    const problem = await this.#mismatch(file, log)
    if (problem === null) return this.positions()
    await this.#startOver(file, problem)
    return {}
  }

  /** Deletes an opened file that turned out to be unreadable. The log must be read from its start. */
  async startOver(problem: string): Promise<void> {
    if (this.#fileRef.file) await this.#startOver(this.#fileRef.file, problem)
  }

  async #startOver(file: FoldFile, problem: string): Promise<void> {
    if (problem !== '')
      this.#settings.logLine(`${this.#name}: the snapshot is not used (${problem}); the log is read from its start`)
    await file.close()
    removeSnapshot(file.path)
    this.#positions.clear()
    this.#fileRef.file = this.#openFile()
  }

  positions(): Offsets {
    return Object.fromEntries(
      [...this.#positions].map(([topic, partitions]) => [
        topic,
        Object.fromEntries([...partitions].map(([partition, { next }]) => [partition, next])),
      ]),
    )
  }

  /**
   * Call it after folding a record. If it returns a promise, the next record must not be folded before it resolves.
   * `beforeSave` is awaited before the snapshot includes the record.
   */
  after({ topic, partition, offset, id }: FoldedRecord, beforeSave?: () => Promise<void>): Promise<void> | undefined {
    let partitions = this.#positions.get(topic)
    if (!partitions) this.#positions.set(topic, (partitions = new Map()))
    partitions.set(partition, { next: offset + 1, id })
    this.#unsavedRecords += 1
    const { records, ms } = this.#settings
    if (this.#unsavedRecords < records && (this.#unsavedRecords % 64 !== 1 || performance.now() - this.#savedAt < ms))
      return undefined
    // On a slow disk snapshots are less frequent; folding waits only if several are due.
    if (this.#isFlushing && this.#unsavedRecords < MAX_OVERDUE * records) return undefined
    return beforeSave ? beforeSave().then(() => this.save()) : this.save()
  }

  /** Writes all changes in slices. The fold must not change until it resolves. Does not wait for the disk. */
  async save(): Promise<void> {
    await this.#flushing
    const { file } = this.#fileRef
    if (!file || this.#ended || this.#unsavedRecords === 0) return
    const changes = this.#parts.map((part) => part.takeChanges())
    try {
      file.begin()
      await inSlices(flatten(changes), (step) => step())
      file.setMeta('version', versionText(this.#version))
      file.setMeta(
        'reached',
        JSON.stringify([...this.#positions].map(([topic, partitions]) => [topic, [...partitions]])),
      )
      file.commit()
    } catch (error) {
      file.rollback()
      for (const part of this.#parts) part.rollback()
      this.#settings.logLine(`${this.#name}: no snapshot could be taken: ${(error as Error).message}`)
      this.#savedAt = performance.now()
      this.#unsavedRecords = 1
      return
    }
    await inSlices(flatten(this.#parts.map((part) => part.commit())), (step) => step())
    this.#unsavedRecords = 0
    this.#savedAt = performance.now()
    this.#isFlushing = true
    this.#flushing = file
      .flush()
      .catch((error: unknown) =>
        this.#settings.logLine(
          `${this.#name}: the snapshot may be lost in a power failure: ${(error as Error).message}`,
        ),
      )
      .finally(() => {
        this.#isFlushing = false
      })
  }

  /** Takes a last snapshot and closes the file. `save` false: without a snapshot, as if the process was killed. */
  async close({ save = true }: { save?: boolean } = {}): Promise<void> {
    if (save) await this.save()
    this.#ended = true
    await this.#flushing
    const { file } = this.#fileRef
    this.#fileRef.file = null
    await file?.close()
  }

  #addPart<T extends SnapshotPart>(part: T): T {
    this.#parts.push(part)
    return part
  }

  /** Opens the first file of this name that no process has locked; null, with a message, if there is none. */
  #openFile(): FoldFile | null {
    const { folder, logLine, file } = this.#settings
    if (file) return file(this.#name)
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      // Folds contain texts of feedback.
      restrictMode(folder, 0o700)
      for (let i = 1; i <= MAX_FILES; i += 1) {
        const path = join(folder, i === 1 ? `${this.#name}.db` : `${this.#name}.${i}.db`)
        try {
          return new SnapshotFile(path)
        } catch (error) {
          if (isLocked(error)) continue
          logLine(
            `${this.#name}: the snapshot is not used (${(error as Error).message}); the log is read from its start`,
          )
          removeSnapshot(path)
          return new SnapshotFile(path)
        }
      }
      logLine(`${this.#name}: no snapshots are kept: ${MAX_FILES} processes use ${folder}`)
    } catch (error) {
      logLine(`${this.#name}: no snapshots are kept in ${folder}: ${(error as Error).message}`)
    }
    return null
  }

  /** The reason why the file is no snapshot of this log by this version; null if it is, '' if it is empty. */
  async #mismatch(file: FoldFile, log: EventLog): Promise<string | null> {
    try {
      const version = file.meta('version')
      if (version === undefined) return ''
      const migrations = migrationsFrom(version, this.#version)
      if (!migrations) return 'another build wrote it'
      for (const [topic, partitions] of JSON.parse(file.meta('reached') ?? '') as [
        Topic,
        [number, PartitionPosition][],
      ][]) {
        this.#positions.set(topic, new Map(partitions))
        for (const [partition, { next, id }] of partitions) {
          const last = await log.at({ topic, partition, offset: next - 1 })
          if (!last || recordId(last) !== id)
            return `${topic} ${partition}@${next - 1} is a different record on this log`
        }
      }
      if (migrations.length > 0) this.#migrate(file, version, migrations)
      return null
    } catch (error) {
      if (error instanceof InstarError && error.code !== 'snapshot_damaged') throw error
      return (error as Error).message
    }
  }

  /** All at once with the new version, so that a process that is killed leaves the old state or the new one. */
  #migrate(file: FoldFile, from: string, migrations: readonly Migration[]): void {
    const to = versionText(this.#version)
    file.begin()
    try {
      for (const migrate of migrations) migrate(file)
      file.setMeta('version', to)
      file.commit()
    } catch (cause) {
      file.rollback()
      throw new Error(`its state cannot be migrated from ${from} to ${to}: ${(cause as Error).message}`, { cause })
    }
    this.#settings.logLine(`${this.#name}: the snapshot was migrated from ${from} to ${to}`)
  }
}
