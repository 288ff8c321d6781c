/** Queues of a fold: what waits may be as long as the log, or a few. */
import type { Queue, Queues } from '@instar/events'
import { ResidentTable, type FileRef, type WorkStep, type SnapshotPart } from './tables.ts'

/** A short one, all in memory. Its entries' values say in which order they came. */
export class ResidentQueue implements Queue, SnapshotPart {
  readonly #table: ResidentTable<number>
  #order: Set<string> | undefined
  #next = 0

  constructor(place: FileRef, name: string) {
    this.#table = new ResidentTable(place, name)
  }

  get size(): number {
    return this.#keys.size
  }

  has(key: string): boolean {
    return this.#keys.has(key)
  }

  add(key: string): void {
    const keys = this.#keys
    if (keys.has(key)) return
    keys.add(key)
    this.#table.set(key, this.#next)
    this.#next += 1
  }

  delete(key: string): void {
    if (this.#keys.delete(key)) this.#table.delete(key)
  }

  [Symbol.iterator](): IterableIterator<string> {
    return this.#keys.values()
  }

  take(): Iterable<WorkStep> {
    return this.#table.take()
  }

  done(): Iterable<WorkStep> {
    return this.#table.done()
  }

  undone(): void {
    this.#table.undone()
  }

  get #keys(): Set<string> {
    if (!this.#order) {
      const stored = [...this.#table].sort(([, a], [, b]) => a - b)
      this.#order = new Set(stored.map(([key]) => key))
      this.#next = (stored.at(-1)?.[1] ?? -1) + 1
    }
    return this.#order
  }
}

/** Keys in the order in which they came, the most of them in the file. */
export class StoredQueue implements Queue, SnapshotPart {
  readonly #place: FileRef
  readonly #name: string
  #added = new Set<string>()
  #removed = new Set<string>()
  #saving: { added: Set<string>; removed: Set<string> } | undefined
  #stored: number | undefined

  constructor(place: FileRef, name: string) {
    this.#place = place
    this.#name = name
  }

  get size(): number {
    return this.#inFile - this.#removed.size + this.#added.size
  }

  has(key: string): boolean {
    return this.#added.has(key) || (this.#isInFile(key) && !this.#removed.has(key))
  }

  add(key: string): void {
    if (!this.has(key)) this.#added.add(key)
  }

  delete(key: string): void {
    if (!this.#added.delete(key) && this.#isInFile(key)) this.#removed.add(key)
  }

  *[Symbol.iterator](): IterableIterator<string> {
    const { file } = this.#place
    for (let after = 0; file && this.#inFile > 0;) {
      const page = file.page(this.#name, after)
      for (const [, key] of page) if (!this.#removed.has(key)) yield key
      const last = page.at(-1)
      if (!last) break
      after = last[0]
    }
    yield* this.#added
  }

  /** Written at once, since `has` and the order are asked of the file: a queue changes between two records only. */
  take(): Iterable<WorkStep> {
    const { file } = this.#place
    if (!file) return []
    const [added, removed] = [this.#added, this.#removed]
    this.#saving = { added: new Set(added), removed: new Set(removed) }
    const before = this.#inFile
    return [
      () => {
        for (const key of removed) file.dequeue(this.#name, key)
        for (const key of added) file.enqueue(this.#name, key)
        this.#stored = before - removed.size + added.size
        this.#added = new Set()
        this.#removed = new Set()
      },
    ]
  }

  done(): Iterable<WorkStep> {
    this.#saving = undefined
    return []
  }

  undone(): void {
    if (this.#saving) ({ added: this.#added, removed: this.#removed } = this.#saving)
    this.#saving = undefined
    this.#stored = undefined
  }

  get #inFile(): number {
    return (this.#stored ??= this.#place.file?.count(this.#name) ?? 0)
  }

  #isInFile(key: string): boolean {
    return this.#inFile > 0 && this.#place.file !== null && this.#place.file.queued(this.#name, key)
  }
}

/** Queues by name, the most of each in the file. One that is emptied costs nothing from the next snapshot on. */
export class StoredQueues implements Queues, SnapshotPart {
  readonly #place: FileRef
  readonly #prefix: string
  #known: Map<string, StoredQueue> | undefined
  #saving: StoredQueue[] = []

  constructor(place: FileRef, name: string) {
    this.#place = place
    this.#prefix = `${name} `
  }

  get(name: string): Queue | undefined {
    return this.#queues.get(name)
  }

  /** What `queue` holds is taken over; later changes are made to what `get` gives. */
  set(name: string, queue: Queue): void {
    let stored = this.#queues.get(name)
    if (!stored) this.#queues.set(name, (stored = new StoredQueue(this.#place, this.#prefix + name)))
    for (const key of queue) stored.add(key)
  }

  delete(name: string): void {
    const queue = this.#queues.get(name)
    for (const key of queue ?? []) queue?.delete(key)
  }

  *keys(): IterableIterator<string> {
    for (const [name, queue] of this.#queues) if (queue.size > 0) yield name
  }

  take(): Iterable<WorkStep> {
    this.#saving = [...this.#queues.values()]
    return this.#saving.flatMap((queue) => [...queue.take()])
  }

  done(): Iterable<WorkStep> {
    for (const queue of this.#saving.splice(0)) queue.done()
    for (const [name, queue] of this.#queues) if (queue.size === 0) this.#queues.delete(name)
    return []
  }

  undone(): void {
    for (const queue of this.#saving.splice(0)) queue.undone()
  }

  /** Read at the first use, which is after the snapshot was opened. */
  get #queues(): Map<string, StoredQueue> {
    const names = (): string[] => this.#place.file?.filled(this.#prefix) ?? []
    return (this.#known ??= new Map(
      names().map((name) => [name.slice(this.#prefix.length), new StoredQueue(this.#place, name)]),
    ))
  }
}
