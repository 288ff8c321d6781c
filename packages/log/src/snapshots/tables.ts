/**
 * Tables of a fold that may be larger than memory. Changes since the last snapshot and recently used entries are in
 * memory; other entries are read from the file on access.
 */
import type { Keys, Table } from '@instar/events'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { FoldFile } from './file.ts'
import { fromBytes, toBytes } from './value.ts'

/**
 * `pack` and `unpack`: conversion to a compact form that v8.serialize supports. `json`: whether JSON represents the
 * packed value exactly. `weightOf`: the weight of a value in the cache, default 1. `compress`: compresses values with
 * zstd, for large values that are rarely read. `once`: entries are set once, so that the file is not looked through for them
 * before they are written.
 */
export type TableOptions<V> = {
  once?: boolean
  compress?: boolean
  pack?: (value: V) => unknown
  unpack?: (packed: unknown, key: string) => V
  json?: (value: V) => boolean
  weightOf?: (value: V) => number
}

/** A part of a snapshot: `takeChanges` returns the changes to write, then `commit` or `rollback` is called for them. */
export type SnapshotPart = {
  /** The steps that write the changes since the last call. They do not include later changes. */
  takeChanges(): Iterable<WorkStep>
  /** The changes are in the file. The steps must be completed before the next change. */
  commit(): Iterable<WorkStep>
  /** The changes could not be written: the next `takeChanges` includes them again. */
  rollback(): void
  /** Drops everything, which was read from a file that is not used. Absent where nothing is read before the first record. */
  forget?(): void
}

/** A short part of the work; the event loop may turn between two steps. */
export type WorkStep = () => void

/** The file of a snapshot; null if there is none, and everything stays in memory. */
export type FileRef = { file: FoldFile | null }

const ZSTD_LEVEL_1 = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }

const DELETED = Symbol('deleted')

/** Maximum number of cached keys that the file does not contain. */
const MAX_ABSENT = 4096

abstract class Changes<V> {
  protected readonly fileRef: FileRef
  protected readonly name: string
  protected changed = new Map<string, V | typeof DELETED>()
  protected saving = new Map<string, V | typeof DELETED>()

  constructor(fileRef: FileRef, name: string) {
    this.fileRef = fileRef
    this.name = name
  }

  protected abstract encode(value: V): Uint8Array
  /** Whether the file probably does not contain an entry that is written. */
  protected isNew(): boolean {
    return false
  }
  /** The entry was written to the file. */
  protected abstract committed(key: string, value: V | typeof DELETED): void

  takeChanges(): Iterable<WorkStep> {
    const { file } = this.fileRef
    if (!file) return []
    this.saving = this.changed
    this.changed = new Map()
    return this.steps((key, value) => {
      if (value === DELETED) file.delete(this.name, key)
      else file.set(this.name, key, this.encode(value), this.isNew())
    })
  }

  *commit(): Iterable<WorkStep> {
    yield* this.steps((key, value) => this.committed(key, value))
    this.saving = new Map()
  }

  private *steps(work: (key: string, value: V | typeof DELETED) => void): Iterable<WorkStep> {
    for (const [key, value] of this.saving) yield () => work(key, value)
  }

  rollback(): void {
    this.changed = new Map([...this.saving, ...this.changed])
    this.saving = new Map()
  }

  forget(): void {
    this.changed = new Map()
    this.saving = new Map()
  }
}

/** A table whose entries are read on access. Caches recently used entries, up to about twice `maxWeight`. */
export class SpilledTable<V> extends Changes<V> implements Table<string, V>, SnapshotPart {
  readonly #options: TableOptions<V>
  readonly #maxWeight: number
  #young = new Map<string, V>()
  #old = new Map<string, V>()
  #weight = 0
  /** Keys that the file does not contain, so that it is read once for each. */
  #absent = new Set<string>()

  constructor(fileRef: FileRef, name: string, maxWeight: number, options: TableOptions<V> = {}) {
    super(fileRef, name)
    this.#maxWeight = maxWeight
    this.#options = options
  }

  get(key: string): V | undefined {
    const changed = this.changed.get(key) ?? this.saving.get(key)
    if (changed !== undefined) return changed === DELETED ? undefined : changed
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const value = this.#old.get(key) ?? this.#load(key)
    if (value !== undefined) this.#cache(key, value)
    return value
  }

  has(key: string): boolean {
    return this.get(key) !== undefined
  }

  set(key: string, value: V): void {
    this.changed.set(key, value)
    this.#evict(key)
  }

  delete(key: string): void {
    this.changed.set(key, DELETED)
    this.#evict(key)
  }

  protected encode(value: V): Uint8Array {
    const { pack, compress, json } = this.#options
    const bytes = toBytes(pack ? pack(value) : value, json?.(value) ?? false)
    return compress ? zstdCompressSync(bytes, ZSTD_LEVEL_1) : bytes
  }

  protected override isNew(): boolean {
    return this.#options.once === true
  }

  protected committed(key: string, value: V | typeof DELETED): void {
    if (value !== DELETED && !this.changed.has(key)) this.#cache(key, value)
  }

  override forget(): void {
    super.forget()
    this.#young = new Map()
    this.#old = new Map()
    this.#absent = new Set()
    this.#weight = 0
  }

  #evict(key: string): void {
    this.#young.delete(key)
    this.#old.delete(key)
    this.#absent.delete(key)
  }

  #load(key: string): V | undefined {
    if (this.#absent.has(key)) return undefined
    const { file } = this.fileRef
    const bytes = file?.get(this.name, key)
    if (!bytes) {
      if (this.#absent.size >= MAX_ABSENT) this.#absent = new Set()
      if (file) this.#absent.add(key)
      return undefined
    }
    const { unpack, compress } = this.#options
    const packed = fromBytes(compress ? zstdDecompressSync(bytes) : bytes)
    return unpack ? unpack(packed, key) : (packed as V)
  }

  /** A cache of two generations: when the young one is full, it replaces the old one. */
  #cache(key: string, value: V): void {
    this.#young.set(key, value)
    this.#old.delete(key)
    this.#weight += this.#options.weightOf?.(value) ?? 1
    if (this.#weight <= this.#maxWeight) return
    this.#old = this.#young
    this.#young = new Map()
    this.#weight = 0
  }
}

/** A small table that is kept in memory and copied to the file. */
export class ResidentTable<V> extends Changes<V> implements Table<string, V>, SnapshotPart {
  #loaded: Map<string, V> | undefined

  get size(): number {
    return this.#entries.size
  }

  get(key: string): V | undefined {
    return this.#entries.get(key)
  }

  has(key: string): boolean {
    return this.#entries.has(key)
  }

  set(key: string, value: V): void {
    this.#entries.set(key, value)
    this.changed.set(key, value)
  }

  delete(key: string): void {
    if (this.#entries.delete(key)) this.changed.set(key, DELETED)
  }

  [Symbol.iterator](): IterableIterator<[string, V]> {
    return this.#entries.entries()
  }

  override forget(): void {
    super.forget()
    this.#loaded = undefined
  }

  protected encode(value: V): Uint8Array {
    return toBytes(value, false)
  }

  protected committed(): void {
    return undefined
  }

  /** Read from the file at the first use, after the snapshot was opened. */
  get #entries(): Map<string, V> {
    if (!this.#loaded) {
      this.#loaded = new Map()
      const { file } = this.fileRef
      for (let after = ''; file;) {
        const page = file.entries(this.name, after)
        for (const [key, value] of page) this.#loaded.set(key, fromBytes(value) as V)
        const last = page.at(-1)
        if (!last) break
        after = last[0]
      }
    }
    return this.#loaded
  }
}

export const keysOf = (table: Table<string, true>): Keys => ({
  has: (key) => table.has(key),
  add: (key) => table.set(key, true),
  delete: (key) => table.delete(key),
})
