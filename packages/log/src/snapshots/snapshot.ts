/**
 * The fold of one service, kept in a file together with where on the log it stands: for each partition the next
 * offset and the id of the last record. Both are written in one transaction, so that what is read back is a
 * fold of exactly that much of the log. A file of another fold version, or of another log, is thrown away.
 */
import { InstarError, recordId, type Keys, type Logged, type Queue, type Queues, type Table } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { restrictMode } from '../permissions.ts'
import type { EventLog, Offsets } from '../port.ts'
import { isLocked, removeSnapshot, SnapshotFile, type FoldFile } from './file.ts'
import { Mirror, type Mirrored } from './mirror.ts'
import { ResidentQueue, StoredQueue, StoredQueues } from './queue.ts'
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

export type SnapshotSettings = {
  folder: string
  /** A snapshot is taken after so many records, or so many milliseconds, whichever comes first. */
  records: number
  ms: number
  /** What a spilled table keeps in memory: entries, or what they weigh. */
  room: number
  /** Called with the reason when a file cannot be used. */
  say: (line: string) => void
  /** Instead of a file in the folder: what a simulation keeps in memory, by the file's name. */
  file?: (name: string) => FoldFile
}

type PartitionMark = { next: number; id: string }

/** How many times the records of a snapshot may wait for the one before it. */
const OVERDUE = 4
/** Of one service on one folder so many processes find a file of their own. */
const OPENINGS = 32

const oneByOne = function* (all: readonly Iterable<WorkStep>[]): Iterable<WorkStep> {
  for (const steps of all) yield* steps
}

export class Snapshot {
  readonly #settings: SnapshotSettings
  readonly #name: string
  readonly #version: string
  readonly #place: FileRef = { file: null }
  readonly #parts: SnapshotPart[] = []
  readonly #reached = new Map<Topic, Map<number, PartitionMark>>()
  /** Of the last snapshot, while it is on its way to the disk. */
  #flushing: Promise<void> = Promise.resolve()
  #onItsWay = false
  #unsaved = 0
  #savedAt = 0
  #ended = false

  /** `version`: what a file must say of the fold that made it. Nothing is touched before `open`. */
  constructor(settings: SnapshotSettings, name: string, version: string) {
    this.#settings = settings
    this.#name = name
    this.#version = version
  }

  table<V>(name: string, options: TableOptions<V> = {}): Table<string, V> {
    return this.#with(new SpilledTable<V>(this.#place, name, this.#settings.room, options))
  }

  resident<V>(name: string): ResidentTable<V> {
    return this.#with(new ResidentTable<V>(this.#place, name))
  }

  queue(name: string): Queue {
    return this.#with(new StoredQueue(this.#place, name))
  }

  /** `queue`, of few keys: all in memory. */
  shortQueue(name: string): Queue {
    return this.#with(new ResidentQueue(this.#place, name))
  }

  queues(name: string): Queues {
    return this.#with(new StoredQueues(this.#place, name))
  }

  mirror(name: string, of: Mirrored): Mirror {
    return this.#with(new Mirror(this.#place, name, of))
  }

  keys(name: string): Keys {
    return keysOf(this.table<true>(name))
  }

  /** Where to read on from; {} for the start, after a file that does not fit was thrown away. */
  async open(log: EventLog): Promise<Offsets> {
    const file = this.#find()
    this.#place.file = file
    this.#savedAt = performance.now()
    if (!file) return {}
    const problem = await this.#misfit(file, log)
    if (problem === null) return this.positions()
    await this.#startOver(file, problem)
    return {}
  }

  /** The opened file turned out unreadable: drops its state; the log is read from its start. */
  async startOver(problem: string): Promise<void> {
    if (this.#place.file) await this.#startOver(this.#place.file, problem)
  }

  async #startOver(file: FoldFile, problem: string): Promise<void> {
    if (problem !== '')
      this.#settings.say(`${this.#name}: the snapshot is not used (${problem}); the log is read from its start`)
    await file.close()
    removeSnapshot(file.path)
    this.#reached.clear()
    this.#place.file = this.#find()
  }

  positions(): Offsets {
    return Object.fromEntries(
      [...this.#reached].map(([topic, partitions]) => [
        topic,
        Object.fromEntries([...partitions].map(([partition, { next }]) => [partition, next])),
      ]),
    )
  }

  /**
   * A record was folded. What it returns, if anything, must be waited for before the next one is. `first` is what
   * has to be done elsewhere before the snapshot may say that the record was.
   */
  after({ topic, partition, offset, id }: Logged, first?: () => Promise<void>): Promise<void> | undefined {
    let partitions = this.#reached.get(topic)
    if (!partitions) this.#reached.set(topic, (partitions = new Map()))
    partitions.set(partition, { next: offset + 1, id })
    this.#unsaved += 1
    const { records, ms } = this.#settings
    if (this.#unsaved < records && (this.#unsaved % 64 !== 1 || performance.now() - this.#savedAt < ms))
      return undefined
    // A slow disk makes snapshots rarer; the event loop waits only when several are due.
    if (this.#onItsWay && this.#unsaved < OVERDUE * records) return undefined
    return first ? first().then(() => this.save()) : this.save()
  }

  /**
   * Writes what has changed, a slice at a time. The fold must not change until it resolves; the disk is not waited
   * for.
   */
  async save(): Promise<void> {
    await this.#flushing
    const { file } = this.#place
    if (!file || this.#ended || this.#unsaved === 0) return
    const taken = this.#parts.map((part) => part.take())
    try {
      file.begin()
      await inSlices(oneByOne(taken), (step) => step())
      file.setMeta('version', this.#version)
      file.setMeta('reached', JSON.stringify([...this.#reached].map(([topic, partitions]) => [topic, [...partitions]])))
      file.commit()
    } catch (error) {
      file.rollback()
      for (const part of this.#parts) part.undone()
      this.#settings.say(`${this.#name}: no snapshot could be taken: ${(error as Error).message}`)
      this.#savedAt = performance.now()
      this.#unsaved = 1
      return
    }
    await inSlices(oneByOne(this.#parts.map((part) => part.done())), (step) => step())
    this.#unsaved = 0
    this.#savedAt = performance.now()
    this.#onItsWay = true
    this.#flushing = file
      .flush()
      .catch((error: unknown) =>
        this.#settings.say(`${this.#name}: the snapshot may not survive a power cut: ${(error as Error).message}`),
      )
      .finally(() => {
        this.#onItsWay = false
      })
  }

  /** A last snapshot, then the file is let go. `save` false: as if the process had been killed. */
  async close({ save = true }: { save?: boolean } = {}): Promise<void> {
    if (save) await this.save()
    this.#ended = true
    await this.#flushing
    const { file } = this.#place
    this.#place.file = null
    await file?.close()
  }

  #with<T extends SnapshotPart>(part: T): T {
    this.#parts.push(part)
    return part
  }

  /** The first file of this name that no process has locked; null, with a message, when there is none. */
  #find(): FoldFile | null {
    const { folder, say, file } = this.#settings
    if (file) return file(this.#name)
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      // A fold holds what people wrote with their feedback.
      restrictMode(folder, 0o700)
      for (let i = 1; i <= OPENINGS; i += 1) {
        const path = join(folder, i === 1 ? `${this.#name}.db` : `${this.#name}.${i}.db`)
        try {
          return new SnapshotFile(path)
        } catch (error) {
          if (isLocked(error)) continue
          say(`${this.#name}: the snapshot is not used (${(error as Error).message}); the log is read from its start`)
          removeSnapshot(path)
          return new SnapshotFile(path)
        }
      }
      say(`${this.#name}: no snapshots are kept: ${OPENINGS} processes use ${folder}`)
    } catch (error) {
      say(`${this.#name}: no snapshots are kept in ${folder}: ${(error as Error).message}`)
    }
    return null
  }

  /** Why the file is not a fold of this log by this code; null if it is, '' if it is empty. */
  async #misfit(file: FoldFile, log: EventLog): Promise<string | null> {
    try {
      const version = file.meta('version')
      if (version === undefined) return ''
      if (version !== this.#version) return 'another build made it'
      for (const [topic, partitions] of JSON.parse(file.meta('reached') ?? '') as [
        Topic,
        [number, PartitionMark][],
      ][]) {
        this.#reached.set(topic, new Map(partitions))
        for (const [partition, { next, id }] of partitions) {
          const last = await log.at({ topic, partition, offset: next - 1 })
          if (!last || recordId(last) !== id) return `${topic} ${partition}@${next - 1} is another record on this log`
        }
      }
      return null
    } catch (error) {
      if (error instanceof InstarError && error.code !== 'snapshot_damaged') throw error
      return (error as Error).message
    }
  }
}
