/**
 * Interfaces of the keyed state of a fold. `Map` and `Set` implement them in memory; services with more state than
 * memory use a stored implementation (packages/log/src/snapshots). A fold therefore looks up entries by key, does not
 * iterate over all of them, and calls `set` after changing a value in place.
 */
export type Table<K, V> = {
  get(key: K): V | undefined
  has(key: K): boolean
  set(key: K, value: V): unknown
  delete(key: K): unknown
}

export type Keys<K = string> = { has(key: K): boolean; add(key: K): unknown; delete(key: K): unknown }

/**
 * Keys in the order in which they were added. Adding a key that is present does not move it. `last`: the last `count`
 * keys, newest first, without reading the others; absent where iterating is cheap.
 */
export type Queue = Keys & Iterable<string> & { readonly size: number; last?(count: number): string[] }

/**
 * Queues by name. `Map` implements it in memory. `keys` returns at least the names of all queues that are not empty.
 */
export type Queues = {
  get(name: string): Queue | undefined
  set(name: string, queue: Queue): unknown
  delete(name: string): unknown
  keys(): Iterable<string>
}

/** An append-only list for tools that read a whole line: an array in such tools, a no-op in services. */
export type Journal<T> = { push(item: T): unknown }
