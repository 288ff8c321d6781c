/**
 * A snapshot file in memory: the same bytes under the same names as in the SQLite file, in the same queue order. It
 * survives the process; uncommitted changes are lost.
 */
import { InstarError } from '@instar/events'
import type { FoldFile } from '@instar/log'

/** What survives a process: entries and queues by name, as of the last commit. */
export class Disk {
  meta = new Map<string, string>()
  entries = new Map<string, Map<string, Uint8Array>>()
  /** Key → its position in the queue. */
  queues = new Map<string, Map<string, number>>()
  seq = 0
}

/** Entries per page. Smaller than the real number, so that there is a second page. */
const PAGE = 3

export class MemoryFile implements FoldFile {
  readonly path: string
  readonly #disk: Disk
  #before: Pick<Disk, 'meta' | 'entries' | 'queues'> | null = null

  constructor(name: string, disk: Disk) {
    this.path = `memory:${name}`
    this.#disk = disk
  }

  meta(name: string): string | undefined {
    return this.#disk.meta.get(name)
  }

  setMeta(name: string, value: string): void {
    this.#disk.meta.set(name, value)
  }

  get(table: string, key: string): Uint8Array | undefined {
    const bytes = this.#disk.entries.get(table)?.get(key)
    return bytes && new Uint8Array(bytes)
  }

  has(table: string, key: string): boolean {
    return this.#disk.entries.get(table)?.has(key) ?? false
  }

  set(table: string, key: string, value: Uint8Array): void {
    held(this.#disk.entries, table).set(key, new Uint8Array(value))
  }

  delete(table: string, key: string): void {
    this.#disk.entries.get(table)?.delete(key)
  }

  clear(table: string): void {
    this.#disk.entries.delete(table)
  }

  entries(table: string, after: string): [key: string, value: Uint8Array][] {
    const behind = [...(this.#disk.entries.get(table) ?? [])]
      .filter(([key]) => key > after)
      .sort(([a], [b]) => (a < b ? -1 : 1))
    return behind.slice(0, PAGE).map(([key, value]) => [key, new Uint8Array(value)])
  }

  queued(table: string, key: string): boolean {
    return this.#disk.queues.get(table)?.has(key) ?? false
  }

  /** Throws for an existing key, as the unique index does. */
  enqueue(table: string, key: string): void {
    const queue = held(this.#disk.queues, table)
    if (queue.has(key)) throw new Error(`${table} holds ${key} already`)
    queue.set(key, (this.#disk.seq += 1))
  }

  dequeue(table: string, key: string): void {
    this.#disk.queues.get(table)?.delete(key)
  }

  page(table: string, after: number): [seq: number, key: string][] {
    const queue = [...(this.#disk.queues.get(table) ?? [])].map(([key, seq]): [number, string] => [seq, key])
    return queue.filter(([seq]) => seq > after).slice(0, PAGE)
  }

  pageBack(table: string, before: number, most: number): [seq: number, key: string][] {
    const queue = [...(this.#disk.queues.get(table) ?? [])].map(([key, seq]): [number, string] => [seq, key])
    return queue
      .filter(([seq]) => seq < before)
      .reverse()
      .slice(0, Math.min(most, PAGE))
  }

  count(table: string): number {
    return this.#disk.queues.get(table)?.size ?? 0
  }

  *rows(): Generator<[table: string, key: string, value: Uint8Array | null]> {
    const { entries, queues } = this.#disk
    for (const table of [...new Set([...entries.keys(), ...queues.keys()])].sort()) {
      for (const key of [...(entries.get(table)?.keys() ?? [])].sort()) yield [table, key, this.get(table, key)!]
      for (const key of [...(queues.get(table)?.keys() ?? [])].sort()) yield [table, key, null]
    }
  }

  nonEmptyQueues(prefix: string): string[] {
    return [...this.#disk.queues].flatMap(([name, queue]) => (queue.size > 0 && name.startsWith(prefix) ? [name] : []))
  }

  damaged(problem: string): InstarError {
    return new InstarError('snapshot_damaged', problem)
  }

  begin(): void {
    const { meta, entries, queues } = this.#disk
    this.#before = { meta: new Map(meta), entries: copied(entries), queues: copied(queues) }
  }

  commit(): void {
    this.#before = null
  }

  rollback(): void {
    if (this.#before) Object.assign(this.#disk, this.#before)
    this.#before = null
  }

  async flush(): Promise<void> {
    return undefined
  }

  async close(): Promise<void> {
    return undefined
  }
}

const copied = <K, V>(tables: Map<string, Map<K, V>>): Map<string, Map<K, V>> =>
  new Map([...tables].map(([name, table]) => [name, new Map(table)]))

const held = <K, V>(tables: Map<string, Map<K, V>>, name: string): Map<K, V> => {
  let table = tables.get(name)
  if (!table) tables.set(name, (table = new Map()))
  return table
}
