/** Queues of a fold: keys in the order in which they were added, in memory or mostly in the file. */
import type { Queue, Queues } from '@instar/events'
import type { FoldFile } from './file.ts'
import { ResidentTable, type FileRef, type WorkStep, type SnapshotPart } from './tables.ts'

/** A short queue that is kept in memory. The values of its entries are their order. */
export class ResidentQueue implements Queue, SnapshotPart {
  readonly #table: ResidentTable<number>
  #order: Set<string> | undefined
  #next = 0

  constructor(fileRef: FileRef, name: string) {
    this.#table = new ResidentTable(fileRef, name)
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

  takeChanges(): Iterable<WorkStep> {
    return this.#table.takeChanges()
  }

  commit(): Iterable<WorkStep> {
    return this.#table.commit()
  }

  rollback(): void {
    this.#table.rollback()
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

/** Entries that `last` reads at a time, at most. */
const PAGE = 256

type Changed = { added: Set<string>; removed: Set<string> }

/** A queue of any length: keys are in the file, changes since the last snapshot in memory. */
export class StoredQueue implements Queue, SnapshotPart {
  readonly #fileRef: FileRef
  readonly #name: string
  #added = new Set<string>()
  #removed = new Set<string>()
  #saving: Changed | undefined
  #stored: number | undefined

  constructor(fileRef: FileRef, name: string) {
    this.#fileRef = fileRef
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
    const { file } = this.#fileRef
    for (let after = 0; file && this.#inFile > 0;) {
      const page = file.page(this.#name, after)
      const added = this.#added
      const keys = page.map(([, key]) => key).filter((key) => !this.#removed.has(key))
      // Where the file has what the snapshot that is being taken adds, the rest is all that was added.
      const end = keys.findIndex((key) => added.has(key))
      yield* end < 0 ? keys : keys.slice(0, end)
      if (end >= 0) return yield* added
      const last = page.at(-1)
      if (!last) break
      after = last[0]
    }
    yield* this.#added
  }

  last(count: number): string[] {
    const { file } = this.#fileRef
    const found = [...this.#added].slice(Math.max(0, this.#added.size - count)).reverse()
    for (let before = Number.MAX_SAFE_INTEGER; file && this.#inFile > 0 && found.length < count;) {
      const page = file.pageBack(this.#name, before, Math.min(PAGE, count - found.length))
      for (const [, key] of page) if (!this.#removed.has(key) && !this.#added.has(key)) found.push(key)
      const first = page.at(-1)
      if (!first) break
      before = first[0]
    }
    return found
  }

  /** Until the last step, what was added and removed is told apart from what is in the file, written or not. */
  takeChanges(): Iterable<WorkStep> {
    const { file } = this.#fileRef
    if (!file) return []
    this.#saving = { added: this.#added, removed: this.#removed }
    return this.#steps(file, this.#saving, this.#inFile)
  }

  *#steps(file: FoldFile, { added, removed }: Changed, before: number): Iterable<WorkStep> {
    for (const key of removed) yield () => file.dequeue(this.#name, key)
    for (const key of added) yield () => file.enqueue(this.#name, key)
    yield () => {
      this.#stored = before - removed.size + added.size
      this.#added = new Set()
      this.#removed = new Set()
    }
  }

  commit(): Iterable<WorkStep> {
    this.#saving = undefined
    return []
  }

  rollback(): void {
    if (this.#saving) ({ added: this.#added, removed: this.#removed } = this.#saving)
    this.#saving = undefined
    this.#stored = undefined
  }

  get #inFile(): number {
    return (this.#stored ??= this.#fileRef.file?.count(this.#name) ?? 0)
  }

  #isInFile(key: string): boolean {
    return this.#inFile > 0 && this.#fileRef.file !== null && this.#fileRef.file.queued(this.#name, key)
  }
}

/** Stored queues by name. An empty queue is dropped at the next snapshot. */
export class StoredQueues implements Queues, SnapshotPart {
  readonly #fileRef: FileRef
  readonly #prefix: string
  #queuesByName: Map<string, StoredQueue> | undefined
  #saving: StoredQueue[] = []

  constructor(fileRef: FileRef, name: string) {
    this.#fileRef = fileRef
    this.#prefix = `${name} `
  }

  /** Undefined for an empty queue, as in memory, also before the next snapshot drops it. */
  get(name: string): Queue | undefined {
    const queue = this.#queues.get(name)
    return queue && queue.size > 0 ? queue : undefined
  }

  /** Copies the keys of `queue`. Later changes must be made to the queue that `get` returns. */
  set(name: string, queue: Queue): void {
    let stored = this.#queues.get(name)
    if (!stored) this.#queues.set(name, (stored = new StoredQueue(this.#fileRef, this.#prefix + name)))
    for (const key of queue) stored.add(key)
  }

  delete(name: string): void {
    const queue = this.#queues.get(name)
    for (const key of queue ?? []) queue?.delete(key)
  }

  *keys(): IterableIterator<string> {
    for (const [name, queue] of this.#queues) if (queue.size > 0) yield name
  }

  takeChanges(): Iterable<WorkStep> {
    this.#saving = [...this.#queues.values()]
    return inTurn(this.#saving.map((queue) => queue.takeChanges()))
  }

  commit(): Iterable<WorkStep> {
    for (const queue of this.#saving.splice(0)) queue.commit()
    for (const [name, queue] of this.#queues) if (queue.size === 0) this.#queues.delete(name)
    return []
  }

  rollback(): void {
    for (const queue of this.#saving.splice(0)) queue.rollback()
  }

  /** Read from the file at the first use, after the snapshot was opened. */
  get #queues(): Map<string, StoredQueue> {
    const names = (): string[] => this.#fileRef.file?.nonEmptyQueues(this.#prefix) ?? []
    return (this.#queuesByName ??= new Map(
      names().map((name) => [name.slice(this.#prefix.length), new StoredQueue(this.#fileRef, name)]),
    ))
  }
}

const inTurn = function* (all: readonly Iterable<WorkStep>[]): Iterable<WorkStep> {
  for (const steps of all) yield* steps
}
