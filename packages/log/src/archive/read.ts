/** Reads an archive: all of it or a range, a record by its position, and the place of a time. Each object is checked by its digest before use. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { Meter, type CopyObserver } from '../copy/meter.ts'
import { partitionOf } from '../partition.ts'
import type { ArchiveUse, CopySource, LogRecord, Offsets, Position, ReadOptions } from '../port.ts'
import {
  damaged,
  endOfPartition,
  MANIFEST,
  MAX_MANIFEST_BYTES,
  objectName,
  parseManifest,
  sha256,
  type Manifest,
  type ObjectEntry,
} from './manifest.ts'
import { ArchivedObjects } from './objects.ts'
import { damagedOf, topicsOf, type DamagedReport } from './report.ts'
import type { ArchiveStore } from './store.ts'
import type { ArchiveReport } from './write.ts'

export type ArchiveProblem = { object: string; what: string }
/** `manifest`: its sha256. `damaged`: records of the log that no object has. `problems`: of every object that is missing or not what the manifest says. */
export type ArchiveCheck = Pick<ArchiveReport, 'topics' | 'damaged' | 'manifest'> & {
  complete: boolean
  problems: ArchiveProblem[]
}

/**
 * `digest`: the sha256 that the manifest must have. `keptBytes`: of objects that stay in memory for the next read, as stored;
 * default: none.
 */
type OpenArchive = { digest?: string | undefined; keptBytes?: number; signal?: AbortSignal | undefined }

export class Archive implements CopySource {
  readonly #manifest: Manifest
  readonly #objects: ArchivedObjects
  /** The latest time of the records of an object of which the manifest has none. */
  readonly #latest = new WeakMap<ObjectEntry, number>()
  readonly sequential: boolean
  /** False: the last run was stopped, and the topics do not end at one moment. */
  readonly complete: boolean
  /** Records that were damaged on the log when it was archived: a restored log lacks them. */
  readonly damaged: DamagedReport
  /** The sha256 of the manifest. */
  readonly digest: string

  private constructor(store: ArchiveStore, manifest: Manifest, digest: string, options: OpenArchive) {
    this.#manifest = manifest
    this.#objects = new ArchivedObjects(store, manifest, options.keptBytes ?? 0, options.signal)
    this.sequential = manifest.sequential
    this.complete = manifest.complete
    this.damaged = damagedOf(manifest)
    this.digest = digest
  }

  /** Throws `archive_damaged`, `archive_unavailable`. */
  static async open(store: ArchiveStore, options: OpenArchive = {}): Promise<Archive> {
    const stored = await store.read(MANIFEST, MAX_MANIFEST_BYTES, options.signal)
    if (!stored) throw damaged(store.address, MANIFEST, 'it is missing, so there is no archive')
    const digest = sha256(stored.bytes)
    if (options.digest !== undefined && digest !== options.digest)
      throw damaged(store.address, MANIFEST, `its sha256 is ${digest}, not ${options.digest}`)
    return new Archive(store, parseManifest(stored.bytes, store.address), digest, options)
  }

  /** Every schema of the archived log: name → Avro JSON. */
  schemas(): Record<string, string> {
    return Object.fromEntries(this.#manifest.schemas.map(({ name, avro }) => [name, avro]))
  }

  partitions(topic: Topic): number {
    return this.#manifest.topics[topic].length
  }

  async ends(topics: readonly Topic[]): Promise<Offsets> {
    return Object.fromEntries(
      topics.map((topic) => [
        topic,
        Object.fromEntries(
          this.#manifest.topics[topic].map((_, partition) => [
            partition,
            endOfPartition(this.#manifest, topic, partition),
          ]),
        ),
      ]),
    )
  }

  /**
   * Without `partition`, one partition after the other. A page is a block of an object. Throws `archive_damaged` with the
   * object's name, `archive_unavailable`, `aborted`; `internal` for a time as a bound.
   */
  async *read(topic: Topic, { from = {}, to = {}, key, partition }: ReadOptions = {}): AsyncGenerator<LogRecord[]> {
    if ('time' in from || 'time' in to) throw new InstarError('internal', 'an archive is not read by time')
    const only = key === undefined ? partition : partitionOf(key, this.partitions(topic))
    for (const [index, { objects }] of this.#manifest.topics[topic].entries()) {
      if (only !== undefined && only !== index) continue
      const start = from[topic]?.[index] ?? 0
      const end = to[topic]?.[index] ?? Infinity
      for (let at = firstIndex(objects.length, (one) => objects[one]!.to > start); at < objects.length; at += 1) {
        if (objects[at]!.from >= end) break
        const object = await this.#objects.get({ topic, partition: index, entry: objects[at]! })
        for (let block = start > objects[at]!.first ? object.blockOf(start) : 0; block < object.length; block += 1) {
          const page = object
            .read(block)
            .filter(
              (record) => record.offset >= start && record.offset < end && (key === undefined || record.key === key),
            )
          if (page.length > 0) yield page
        }
      }
    }
  }

  /** Reads every object. Throws `archive_unavailable`, `aborted`. */
  async check(observer: CopyObserver): Promise<ArchiveCheck> {
    const problems: ArchiveProblem[] = []
    const ends = await this.ends(TOPICS)
    for (const topic of TOPICS) {
      const meter = new Meter({ phase: 'verify', topic }, { to: ends }, observer)
      for (const [partition, { objects }] of this.#manifest.topics[topic].entries()) {
        for (const entry of objects) {
          try {
            const object = await this.#objects.get({ topic, partition, entry })
            for (let index = 0; index < object.length; index += 1) object.read(index).forEach(meter.read)
          } catch (error) {
            if (!(error instanceof InstarError) || error.code !== 'archive_damaged') throw error
            const object = objectName(topic, partition, entry)
            problems.push({ object, what: error.message.slice(error.message.indexOf(object) + object.length + 2) })
          }
        }
      }
      meter.end()
    }
    const { damaged, complete, digest: manifest } = this
    return { topics: topicsOf(this.#manifest), damaged, manifest, complete, problems }
  }

  /** The record at a position; undefined if the archive has none there. Throws as `read`. */
  async at({ topic, partition, offset }: Position): Promise<LogRecord | undefined> {
    const objects = this.#manifest.topics[topic][partition]?.objects ?? []
    const entry = objects[firstIndex(objects.length, (index) => objects[index]!.to > offset)]
    if (!entry || offset < entry.first) return undefined
    const object = await this.#objects.get({ topic, partition, entry })
    const record = object.read(object.blockOf(offset)).find((one) => one.offset === offset)
    // Not a view of its block, which the caller would keep.
    return record && { ...record, payload: record.payload.slice() }
  }

  /** The last record of a partition below an offset; undefined if there is none. Throws as `read`. */
  async lastBefore(topic: Topic, partition: number, offset: number): Promise<LogRecord | undefined> {
    const objects = this.#manifest.topics[topic][partition]?.objects ?? []
    const entry = objects[firstIndex(objects.length, (index) => objects[index]!.first >= offset) - 1]
    if (!entry) return undefined
    const object = await this.#objects.get({ topic, partition, entry })
    return object.read(object.blockOf(offset - 1)).findLast((record) => record.offset < offset)
  }

  /** Whether records of a partition between these offsets (`to` exclusive) may have been damaged when they were archived: no object has them. */
  isDamagedBetween(topic: Topic, partition: number, from: number, to: number): boolean {
    const { records = 0, offsets = [] } = this.#manifest.topics[topic][partition]?.damaged ?? {}
    return records > offsets.length || offsets.some((offset) => offset >= from && offset < to)
  }

  /**
   * The first offset of a partition whose record has a time of at least `time` (ms since 1970); undefined if none below `before` has. One
   * object is read; of an archive that a build of version 1 wrote, once each before it. Throws as `read`.
   */
  async firstSince(topic: Topic, partition: number, time: number, before: number): Promise<number | undefined> {
    for (const entry of this.#manifest.topics[topic][partition]?.objects ?? []) {
      if (entry.from >= before) return undefined
      if ((entry.times?.[1] ?? this.#latest.get(entry) ?? Infinity) < time) continue
      const object = await this.#objects.get({ topic, partition, entry })
      let latest = 0
      for (let index = 0; index < object.length; index += 1)
        for (const { offset, timestamp } of object.read(index)) {
          if (timestamp >= time) return offset < before ? offset : undefined
          latest = Math.max(latest, timestamp)
        }
      this.#latest.set(entry, latest)
    }
    return undefined
  }

  /** Objects that were read and that could not be, and bytes of those that are kept. */
  get use(): Omit<ArchiveUse, 'refused'> {
    return { ...this.#objects.counts, keptBytes: this.#objects.bytes }
  }
}

/** The first of `count` indices for which `is` holds, which it does for all after it; `count`: for none. */
const firstIndex = (count: number, is: (index: number) => boolean): number => {
  let low = 0
  let high = count
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (is(middle)) high = middle
    else low = middle + 1
  }
  return low
}
