/** Objects of an archive, each checked by its digest before use. Those used last are kept, within a limit of bytes. */
import type { Topic } from '@instar/events/flow'
import { LruCache } from '../lru-cache.ts'
import { partitionOf } from '../partition.ts'
import type { LogRecord } from '../port.ts'
import { NotAnObject, ObjectBlocks, type Archived } from './container.ts'
import { damaged, objectName, sha256, type Manifest, type ObjectEntry } from './manifest.ts'
import type { ArchiveStore } from './store.ts'

export type ObjectPlace = { topic: Topic; partition: number; entry: ObjectEntry }

/** Objects that are on their way at once: each may have 73 MB, whatever the cache's limit. */
const MOST_LOADING = 2

export class ArchivedObjects {
  readonly #store: ArchiveStore
  readonly #manifest: Manifest
  readonly #schemas: ReadonlySet<string>
  readonly #signal: AbortSignal | undefined
  readonly #kept: LruCache<ArchivedObject>
  readonly #loading = new Map<string, Promise<ArchivedObject>>()
  readonly #waiting: (() => void)[] = []
  #running = 0
  /** Objects that were read, and those that could not be. */
  readonly counts = { read: 0, failed: 0 }

  /** `keptBytes`: of objects, as stored; 0: each use reads the object. */
  constructor(store: ArchiveStore, manifest: Manifest, keptBytes: number, signal?: AbortSignal) {
    this.#store = store
    this.#manifest = manifest
    this.#schemas = new Set(manifest.schemas.map(({ name }) => name))
    this.#signal = signal
    this.#kept = new LruCache(Infinity, keptBytes, ({ bytes }) => bytes)
  }

  /** Of the objects that are kept. */
  get bytes(): number {
    return this.#kept.bytes
  }

  /** Throws `archive_damaged`, `archive_unavailable`, `aborted`. */
  async get(place: ObjectPlace): Promise<ArchivedObject> {
    const name = objectName(place.topic, place.partition, place.entry)
    const known = this.#kept.get(name) ?? this.#loading.get(name)
    if (known) return known
    const loading = this.#load(place, name).finally(() => this.#loading.delete(name))
    loading.then(
      () => (this.counts.read += 1),
      () => (this.counts.failed += 1),
    )
    this.#loading.set(name, loading)
    return loading
  }

  async #load(place: ObjectPlace, name: string): Promise<ArchivedObject> {
    if (this.#running === MOST_LOADING) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#running += 1
    try {
      const { entry, topic } = place
      const fail: Fail = (what, cause) => {
        throw damaged(this.#store.address, name, what, cause)
      }
      const stored = await this.#store.read(name, entry.bytes, this.#signal)
      if (!stored) return fail('it is missing')
      const { bytes } = stored
      if (bytes.length !== entry.bytes) return fail(`it is truncated: ${bytes.length} of ${entry.bytes} bytes`)
      if (sha256(bytes) !== entry.sha256) return fail('it does not match its sha256')
      const partitions = this.#manifest.topics[topic].length
      const object = new ArchivedObject(place, bytes, { partitions, schemas: this.#schemas, fail })
      this.#kept.set(name, object)
      return object
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#running -= 1
    }
  }
}

type Fail = (what: string, cause?: unknown) => never
type Checks = { partitions: number; schemas: ReadonlySet<string>; fail: Fail }

/** An object whose bytes match their digest. What it says is checked against the manifest when it is read. */
export class ArchivedObject {
  readonly #place: ObjectPlace
  readonly #checks: Checks
  readonly #blocks: ObjectBlocks
  /** By block the offsets of its first and last record, where they are known. */
  readonly #firsts: (number | undefined)[] = []
  readonly #lasts: (number | undefined)[] = []
  /** Bytes as stored. */
  readonly bytes: number

  /** Throws `archive_damaged`. */
  constructor(place: ObjectPlace, bytes: Buffer, checks: Checks) {
    this.#place = place
    this.#checks = checks
    this.bytes = bytes.length
    this.#blocks = this.#decoded(() => new ObjectBlocks(bytes))
    if (this.length === 0) checks.fail('it has no records')
  }

  /** Number of blocks. */
  get length(): number {
    return this.#blocks.length
  }

  /** The records of a block, in order. A payload is a view of the block. Throws `archive_damaged`. */
  read(index: number): LogRecord[] {
    const { topic, partition, entry } = this.#place
    const { partitions, schemas, fail } = this.#checks
    let next = this.#lasts[index - 1] === undefined ? entry.first : this.#lasts[index - 1]! + 1
    const limit = this.#firsts[index + 1] ?? entry.to
    const records = this.#decoded(() => this.#blocks.read(index)).map((record: Archived): LogRecord => {
      const { offset, key, schema, timestamp } = record
      if (offset < next || offset >= limit || (index === 0 && next === entry.first && offset !== entry.first))
        return fail(`it has a record of offset ${offset}, which is not its place`)
      if (partitionOf(key, partitions) !== partition) return fail(`the record ${offset} has a key of another partition`)
      if (!schemas.has(schema)) return fail(`the record ${offset} has a schema that the manifest lacks`)
      if (entry.times && (timestamp < entry.times[0] || timestamp > entry.times[1]))
        return fail(`the record ${offset} has a time outside those of the manifest`)
      next = offset + 1
      return { ...record, topic, partition }
    })
    const count = this.#blocks.records
    if (index === this.length - 1 && (next !== entry.to || count !== entry.records))
      fail(`it has ${count} records up to ${next}, not ${entry.records} up to ${entry.to}`)
    this.#firsts[index] = records[0]!.offset
    this.#lasts[index] = next - 1
    return records
  }

  /** The block in which the offset is, if the object has it: the last that does not begin behind it. Throws `archive_damaged`. */
  blockOf(offset: number): number {
    let low = 0
    let high = this.length - 1
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      const first = this.#firsts[middle] ?? this.read(middle)[0]!.offset
      if (first <= offset) low = middle
      else high = middle - 1
    }
    return low
  }

  #decoded<T>(decode: () => T): T {
    try {
      return decode()
    } catch (cause) {
      if (cause instanceof NotAnObject) return this.#checks.fail(cause.message, cause)
      throw cause
    }
  }
}
