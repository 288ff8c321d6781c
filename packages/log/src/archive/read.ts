/** Reads an archive: as the source of a copy, and to check all of it. Each object is checked by its digest before use. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { Meter, type CopyObserver } from '../copy/meter.ts'
import { partitionOf } from '../partition.ts'
import type { CopySource, LogRecord, Offsets, ReadOptions } from '../port.ts'
import { NotAnObject, readObject, type Archived } from './container.ts'
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
import { damagedOf, topicsOf, type DamagedReport } from './report.ts'
import type { ArchiveStore } from './store.ts'
import type { ArchiveReport } from './write.ts'

export type ArchiveProblem = { object: string; what: string }
/** `manifest`: its sha256. `damaged`: records of the log that no object has. `problems`: of every object that is missing or not what the manifest says. */
export type ArchiveCheck = Pick<ArchiveReport, 'topics' | 'damaged' | 'manifest'> & {
  complete: boolean
  problems: ArchiveProblem[]
}

export class Archive implements CopySource {
  readonly #store: ArchiveStore
  readonly #manifest: Manifest
  readonly #signal: AbortSignal | undefined
  readonly #schemas: ReadonlySet<string>
  readonly sequential: boolean
  /** False: the last run was stopped, and the topics do not end at one moment. */
  readonly complete: boolean
  /** Records that were damaged on the log when it was archived: a restored log lacks them. */
  readonly damaged: DamagedReport
  /** The sha256 of the manifest. */
  readonly digest: string

  private constructor(store: ArchiveStore, manifest: Manifest, digest: string, signal?: AbortSignal) {
    this.#store = store
    this.#manifest = manifest
    this.#signal = signal
    this.#schemas = new Set(manifest.schemas.map(({ name }) => name))
    this.sequential = manifest.sequential
    this.complete = manifest.complete
    this.damaged = damagedOf(manifest)
    this.digest = digest
  }

  /** `digest`: the sha256 that the manifest must have. Throws `archive_damaged`, `archive_unavailable`. */
  static async open(store: ArchiveStore, options: { digest?: string; signal?: AbortSignal } = {}): Promise<Archive> {
    const stored = await store.read(MANIFEST, MAX_MANIFEST_BYTES, options.signal)
    if (!stored) throw damaged(store.address, MANIFEST, 'it is missing, so there is no archive')
    const digest = sha256(stored.bytes)
    if (options.digest !== undefined && digest !== options.digest)
      throw damaged(store.address, MANIFEST, `its sha256 is ${digest}, not ${options.digest}`)
    return new Archive(store, parseManifest(stored.bytes, store.address), digest, options.signal)
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
      for (const entry of objects) {
        if (entry.to <= start || entry.from >= end) continue
        for await (const records of this.#object(topic, index, entry)) {
          const page = records.filter(
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
            for await (const records of this.#object(topic, partition, entry)) records.forEach(meter.read)
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

  /** The records of an object, by block. */
  async *#object(topic: Topic, partition: number, entry: ObjectEntry): AsyncGenerator<LogRecord[]> {
    const name = objectName(topic, partition, entry)
    const fail = (what: string, cause?: unknown): never => {
      throw damaged(this.#store.address, name, what, cause)
    }
    const stored = await this.#store.read(name, entry.bytes, this.#signal)
    if (!stored) return fail('it is missing')
    const { bytes } = stored
    if (bytes.length !== entry.bytes) return fail(`it is truncated: ${bytes.length} of ${entry.bytes} bytes`)
    if (sha256(bytes) !== entry.sha256) return fail('it does not match its sha256')
    let next = entry.first
    let count = 0
    const blocks = readObject(bytes)
    for (;;) {
      let block: IteratorResult<Archived[]>
      try {
        block = blocks.next()
      } catch (cause) {
        if (cause instanceof NotAnObject) return fail(cause.message, cause)
        throw cause
      }
      if (block.done) break
      const page = block.value.map((record): LogRecord => {
        const { offset, key, schema } = record
        if (offset < next || offset > entry.last || (count === 0 && offset !== entry.first))
          return fail(`it has a record of offset ${offset}, which is not its place`)
        if (partitionOf(key, this.partitions(topic)) !== partition)
          return fail(`the record ${offset} has a key of another partition`)
        if (!this.#schemas.has(schema)) return fail(`the record ${offset} has a schema that the manifest lacks`)
        next = offset + 1
        count++
        return { ...record, topic, partition }
      })
      yield page
    }
    if (count !== entry.records || next !== entry.to)
      fail(`it has ${count} records up to ${next}, not ${entry.records} up to ${entry.to}`)
  }
}
