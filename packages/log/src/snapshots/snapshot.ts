/**
 * The snapshot of a service's folds in a file, with their position on the log: for each partition the next offset and
 * the id of the last record. State and position are written in one transaction, so that they always match. A file of
 * another version of the folds that no migrations lead to the present one is left beside it, one of another log is deleted.
 */
import { InstarError, type Keys, type Logged, type Queue, type Queues, type Table } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { rmSync } from 'node:fs'
import { timeOf, unpackedCheckpoints, unreadableIn } from '../checkpoints/start.ts'
import type { EventLog, Offsets } from '../port.ts'
import { bySession, rowOptions, type Row, type TurnTableOptions } from './by-session.ts'
import { firstDifferentRow, stateDigest, type StateDigest, type StateRow } from './digest.ts'
import { LeftTopics } from './left-topics.ts'
import { StoredList, type ListedState } from './list.ts'
import type { PartitionPosition } from './other-log.ts'
import { ResidentQueue, StoredQueue, StoredQueues } from './queue.ts'
import { sessionBriefs, type SessionBrief } from './session-briefs.ts'
import { SessionTable } from './session-table.ts'
import type { SnapshotSettings } from './settings.ts'
import { flatten, inSlices } from './slices.ts'
import { offsetsOf, reachedOf, writePositions, type Positions, type ReachedPosition } from './positions.ts'
import { StateFiles } from './state-files.ts'
import { keysOf, ResidentTable, SpilledTable, type FileRef, type SnapshotPart, type TableOptions } from './tables.ts'
import { versionText, type StateVersion } from './version.ts'

export type FoldedRecord = Pick<Logged, 'topic' | 'partition' | 'offset' | 'id'>

/** A snapshot may be delayed by the flush of the one before it until this many times `records` are unsaved. */
const MAX_OVERDUE = 4

/** Turns of a session in a row. */
export const ROW_TURNS = 128

export class Snapshot {
  readonly #settings: SnapshotSettings
  readonly #name: string
  readonly #version: StateVersion
  readonly #fileRef: FileRef = { file: null }
  readonly #parts: SnapshotPart[] = []
  readonly #interleaved = { orders: new Set<string>(), tables: new Set<string>() }
  readonly #rowTurns: number
  #sessions: SessionTable | undefined
  readonly #positions: Positions = new Map()
  /** Topics that the state folds no more. */
  readonly left = new LeftTopics()
  readonly #files: StateFiles
  /** Partitions of each topic on the log that was opened last. */
  #counts: (topic: Topic) => number = () => 0
  /** Resolves when the last snapshot is on disk. */
  #flushing: Promise<void> = Promise.resolve()
  #isFlushing = false
  #unsavedRecords = 0
  #savedAt = 0
  #ended = false
  #isFolding = false
  #folded = 0

  /** `version`: of the folds, which a file must match or be migrated to. No file is accessed before `open`. */
  constructor(settings: SnapshotSettings, name: string, version: StateVersion) {
    this.#settings = settings
    this.#name = name
    this.#version = version
    this.#rowTurns = settings.rowTurns ?? ROW_TURNS
    this.#files = new StateFiles(settings, name, version, this.#fileRef)
  }

  /** Of the open file; null without one. */
  get path(): string | null {
    return this.#fileRef.file?.path ?? null
  }

  get sessions(): SessionTable {
    const { cacheWeight } = this.#settings
    return (this.#sessions ??= this.#addPart(new SessionTable(this.#fileRef, 'sessions', cacheWeight, this.#rowTurns)))
  }

  /** As `sessionBriefs`; nothing without a file. */
  briefs(): Iterable<SessionBrief> {
    const { file } = this.#fileRef
    return file ? sessionBriefs(file) : []
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
    this.#interleaved.orders.add(name)
    return this.#addPart(new ResidentQueue(this.#fileRef, name))
  }

  queues(name: string): Queues {
    return this.#addPart(new StoredQueues(this.#fileRef, name))
  }

  list(name: string, state: ListedState): StoredList {
    return this.#addPart(new StoredList(this.#fileRef, name, state))
  }

  keys(name: string): Keys {
    return keysOf(this.table<true>(name))
  }

  /**
   * Opens the file. Resolves with the positions to continue from; {} if there is no matching file, and no checkpoint of a
   * version that this build knows. `topics`: that the state folds. Without them a file that has read nothing of a topic is
   * used though the beginning of that topic was cut, which whoever reads the topic from its start then finds.
   */
  async open(log: EventLog, topics: readonly Topic[] = []): Promise<Offsets> {
    this.#counts = (topic) => log.partitions(topic)
    const file = await this.#files.open()
    this.#savedAt = performance.now()
    if (!file) return {}
    this.left.read(file)
    const problem = await this.#files.mismatch(file, log, this.#positions, this.left.without(topics))
    if (problem !== null) {
      this.left.read(null)
      if (await this.#files.replacedIfOther(file)) this.#positions.clear()
      else await this.#reopened()
      this.#files.says(problem || this.#files.whyEmpty(), await this.#fromCheckpoint(log, topics))
      this.#isFolding = this.#files.hasOthers && this.#positions.size === 0
    }
    await this.#files.keepOthers()
    return this.positions()
  }

  leave(topic: Topic): void {
    this.left.add(topic)
    this.#positions.delete(topic)
    this.#unsavedRecords += 1
  }

  /** Records that were folded since the start of the log, where it is read beside the file of another build; null: it is not. */
  folding(): number | null {
    return this.#isFolding ? this.#folded : null
  }

  /** Of files that builds with another state wrote. */
  otherBuilds(): { count: number; bytes: number } {
    return this.#files.otherBuilds()
  }

  /** Takes the newest checkpoint whose file is whole and whose records are those of the log. Its time; null: there is none. */
  async #fromCheckpoint(log: EventLog, topics: readonly Topic[]): Promise<string | null> {
    const { checkpoints: folder, accepts, logLine, signal } = this.#settings
    const path = this.path
    if (folder === undefined || path === null) return null
    const [name, version, unpacked] = [this.#name, this.#version, `${path}.checkpoint`]
    for await (const event of unpackedCheckpoints(log, { folder, name, version, accepts, logLine, signal }, unpacked)) {
      await this.#reopened(unpacked)
      rmSync(unpacked, { force: true })
      const { file } = this.#fileRef
      if (!file) break
      const other = await this.#files.mismatch(file, log, this.#positions, this.left.without(topics))
      const problem = other ?? (await unreadableIn(file, signal))
      if (problem === null) return timeOf(event)
      logLine(`${name}: the checkpoint of ${timeOf(event)} is not used: ${problem}`)
      await this.#reopened()
    }
    return null
  }

  /**
   * As `startOver`, and takes a checkpoint where there is one. Resolves with the positions to continue from; {} for the start of
   * the log.
   */
  async startAgain(problem: string, log: EventLog, topics: readonly Topic[]): Promise<Offsets> {
    await this.#reopened()
    this.#files.says(problem, await this.#fromCheckpoint(log, topics))
    return this.positions()
  }

  /** Deletes an opened file that turned out to be unreadable. The log must be read from its start. */
  async startOver(problem: string): Promise<void> {
    await this.#reopened()
    this.#files.says(problem, null)
  }

  /** Replaces the file by an empty one, or by `initial`. */
  async #reopened(initial?: string): Promise<void> {
    for (const part of this.#parts) part.forget?.()
    if (this.path === null) return
    this.#positions.clear()
    await this.#files.replace(initial)
    this.left.read(this.#fileRef.file)
  }

  /** Of each partition of which a record was folded, the next offset and the id of the last record. */
  reached(): ReachedPosition[] {
    return reachedOf(this.#positions)
  }

  /** Of the state as of the last record, which is saved first. Throws `no_temporary_file` if it could not be saved. */
  async digest(signal?: AbortSignal): Promise<StateDigest> {
    return stateDigest(await this.#savedRows(), this.#interleaved, signal)
  }

  /** The first row that differs from those of another state; null: none. */
  async firstDifferentRow(others: Iterable<StateRow>): Promise<{ table: string; key: string } | null> {
    return firstDifferentRow(await this.#savedRows(), others, this.#interleaved)
  }

  /** Of another state of this service, by the rows of its file. */
  digestOf(rows: Iterable<StateRow>, signal?: AbortSignal): Promise<StateDigest> {
    return stateDigest(rows, this.#interleaved, signal)
  }

  /** The entries of the table depend on how topics are interleaved: digests and comparisons are without them. */
  interleaved(table: string): void {
    this.#interleaved.tables.add(table)
  }

  async #savedRows(): Promise<Iterable<StateRow>> {
    await this.save()
    await this.#flushing
    const { file } = this.#fileRef
    if (file && this.#unsavedRecords === 0) return file.rows()
    throw new InstarError(
      'no_temporary_file',
      `the state of ${this.#name} cannot be written in ${this.#settings.folder}`,
    )
  }

  positions(): Offsets {
    return offsetsOf(this.#positions)
  }

  /**
   * Call it after folding a record. If it returns a promise, the next record must not be folded before it resolves.
   * `beforeSave` is awaited before the snapshot includes the record.
   */
  after({ topic, partition, offset, id }: FoldedRecord, beforeSave?: () => Promise<void>): Promise<void> | undefined {
    const partitions = this.#positions.get(topic) ?? new Map<number, PartitionPosition>()
    this.#positions.set(topic, partitions.set(partition, { next: offset + 1, id }))
    this.#unsavedRecords += 1
    this.#folded += 1
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
      writePositions(file, this.#positions, this.left.list(), this.#counts)
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
      .then(() => this.#files.removeUnused(file))
      .catch((error: unknown) =>
        this.#settings.logLine(
          `${this.#name}: the snapshot may be lost in a power failure: ${(error as Error).message}`,
        ),
      )
      .finally(() => {
        this.#isFlushing = false
      })
  }

  /** Saves what changed though no record was folded. Resolves when it is on the disk; false: it could not be saved. */
  async saveChanges(): Promise<boolean> {
    this.#unsavedRecords += 1
    await this.save()
    await this.#flushing
    return this.#unsavedRecords === 0
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
}
