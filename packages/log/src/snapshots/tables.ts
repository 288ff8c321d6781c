/**
 * Collections of a fold that hold more than memory does. What was changed since the last snapshot is in memory,
 * and what was used lately; the rest is read from the file when somebody asks for it.
 */
import type { Keys, Table } from '@instar/events'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { FoldFile } from './file.ts'
import { fromBytes, toBytes } from './value.ts'

/**
 * `pack` and `unpack`: a shorter form of a value, of what v8.serialize takes. `json`: whether this value's form is
 * what JSON gives back as it is. `weigh`: what it counts in memory. `squeeze`: large, and seldom read.
 */
export type TableOptions<V> = {
  squeeze?: boolean
  pack?: (value: V) => unknown
  unpack?: (packed: unknown, key: string) => V
  json?: (value: V) => boolean
  weigh?: (value: V) => number
}

/** What a snapshot writes of a collection: some changes, then either `done` or `undone` for all of them. */
export type SnapshotPart = {
  /** Changes since the last call, as steps of a write; later changes are not among them. */
  take(): Iterable<WorkStep>
  /** They are in the file. To be run to its end, as steps, before anything else is changed. */
  done(): Iterable<WorkStep>
  /** They could not be written: they are changes still. */
  undone(): void
}

/** A small part of a long work: between two of them the event loop may turn. */
export type WorkStep = () => void

/** Where a collection finds the file; null while there is none, and everything stays in memory. */
export type FileRef = { file: FoldFile | null }

const FAST = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }

const GONE = Symbol('gone')

/** Cached keys that the file does not hold. */
const MOST_ABSENT = 4096

abstract class Changes<V> {
  protected readonly place: FileRef
  protected readonly name: string
  protected changed = new Map<string, V | typeof GONE>()
  protected saving = new Map<string, V | typeof GONE>()

  constructor(place: FileRef, name: string) {
    this.place = place
    this.name = name
  }

  protected abstract encode(value: V): Uint8Array
  /** This entry is in the file. */
  protected abstract settled(key: string, value: V | typeof GONE): void

  take(): Iterable<WorkStep> {
    const { file } = this.place
    if (!file) return []
    this.saving = this.changed
    this.changed = new Map()
    return this.steps((key, value) => {
      if (value === GONE) file.drop(this.name, key)
      else file.put(this.name, key, this.encode(value))
    })
  }

  *done(): Iterable<WorkStep> {
    yield* this.steps((key, value) => this.settled(key, value))
    this.saving = new Map()
  }

  private *steps(work: (key: string, value: V | typeof GONE) => void): Iterable<WorkStep> {
    for (const [key, value] of this.saving) yield () => work(key, value)
  }

  undone(): void {
    this.changed = new Map([...this.saving, ...this.changed])
    this.saving = new Map()
  }
}

/** A table that is read entry by entry. At most about twice `room` of what was used lately stays in memory. */
export class SpilledTable<V> extends Changes<V> implements Table<string, V>, SnapshotPart {
  readonly #options: TableOptions<V>
  readonly #room: number
  #young = new Map<string, V>()
  #old = new Map<string, V>()
  #weight = 0
  /** Not in the file either: it is asked once for each. */
  #absent = new Set<string>()

  constructor(place: FileRef, name: string, room: number, options: TableOptions<V> = {}) {
    super(place, name)
    this.#room = room
    this.#options = options
  }

  get(key: string): V | undefined {
    const changed = this.changed.get(key) ?? this.saving.get(key)
    if (changed !== undefined) return changed === GONE ? undefined : changed
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const held = this.#old.get(key) ?? this.#load(key)
    if (held !== undefined) this.#keep(key, held)
    return held
  }

  has(key: string): boolean {
    return this.get(key) !== undefined
  }

  set(key: string, value: V): void {
    this.changed.set(key, value)
    this.#forget(key)
  }

  delete(key: string): void {
    this.changed.set(key, GONE)
    this.#forget(key)
  }

  protected encode(value: V): Uint8Array {
    const { pack, squeeze, json } = this.#options
    const bytes = toBytes(pack ? pack(value) : value, json?.(value) ?? false)
    return squeeze ? zstdCompressSync(bytes, FAST) : bytes
  }

  protected settled(key: string, value: V | typeof GONE): void {
    if (value !== GONE && !this.changed.has(key)) this.#keep(key, value)
  }

  #forget(key: string): void {
    this.#young.delete(key)
    this.#old.delete(key)
    this.#absent.delete(key)
  }

  #load(key: string): V | undefined {
    if (this.#absent.has(key)) return undefined
    const { file } = this.place
    const bytes = file?.get(this.name, key)
    if (!bytes) {
      if (this.#absent.size >= MOST_ABSENT) this.#absent = new Set()
      if (file) this.#absent.add(key)
      return undefined
    }
    const { unpack, squeeze } = this.#options
    const packed = fromBytes(squeeze ? zstdDecompressSync(bytes) : bytes)
    return unpack ? unpack(packed, key) : (packed as V)
  }

  /** A cache of two generations: entries not read while the new one filled up are dropped with the old one. */
  #keep(key: string, value: V): void {
    this.#young.set(key, value)
    this.#old.delete(key)
    this.#weight += this.#options.weigh?.(value) ?? 1
    if (this.#weight <= this.#room) return
    this.#old = this.#young
    this.#young = new Map()
    this.#weight = 0
  }
}

/** A small table that is all in memory, and only written to the file. */
export class ResidentTable<V> extends Changes<V> implements Table<string, V>, SnapshotPart {
  #all: Map<string, V> | undefined

  get size(): number {
    return this.#held.size
  }

  get(key: string): V | undefined {
    return this.#held.get(key)
  }

  has(key: string): boolean {
    return this.#held.has(key)
  }

  set(key: string, value: V): void {
    this.#held.set(key, value)
    this.changed.set(key, value)
  }

  delete(key: string): void {
    if (this.#held.delete(key)) this.changed.set(key, GONE)
  }

  [Symbol.iterator](): IterableIterator<[string, V]> {
    return this.#held.entries()
  }

  protected encode(value: V): Uint8Array {
    return toBytes(value, false)
  }

  protected settled(): void {
    return undefined
  }

  /** Read at the first use, which is after the snapshot was opened. */
  get #held(): Map<string, V> {
    if (!this.#all) {
      this.#all = new Map()
      const { file } = this.place
      for (let after = ''; file;) {
        const page = file.entries(this.name, after)
        for (const [key, value] of page) this.#all.set(key, fromBytes(value) as V)
        const last = page.at(-1)
        if (!last) break
        after = last[0]
      }
    }
    return this.#all
  }
}

/** Entries of turns, one row for each session: what is asked for together is together. */
export const bySession = <V>(
  rows: Table<string, Map<string, V>>,
  sessionOf: (turn: string) => string,
): Table<string, V> => ({
  get: (turn) => rows.get(sessionOf(turn))?.get(turn),
  has: (turn) => rows.get(sessionOf(turn))?.has(turn) ?? false,
  set(turn, value) {
    const session = sessionOf(turn)
    const row = rows.get(session) ?? new Map<string, V>()
    rows.set(session, row.set(turn, value))
  },
  delete(turn) {
    const session = sessionOf(turn)
    const row = rows.get(session)
    if (row?.delete(turn)) rows.set(session, row)
  },
})

export const keysOf = (table: Table<string, true>): Keys => ({
  has: (key) => table.has(key),
  add: (key) => table.set(key, true),
  delete: (key) => table.delete(key),
})
