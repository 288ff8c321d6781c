/**
 * Keyed state of a fold. A `Map` and a `Set` implement it in memory; a service whose state exceeds memory passes a
 * stored implementation (packages/log/src/snapshots). A fold therefore looks entries up by key, never iterates over
 * all of them, and calls `set` after it changes a value in place.
 */
export type Table<K, V> = {
  get(key: K): V | undefined
  has(key: K): boolean
  set(key: K, value: V): unknown
  delete(key: K): unknown
}

export type Keys<K = string> = { has(key: K): boolean; add(key: K): unknown; delete(key: K): unknown }

/** Keys in the order in which they came; adding one again leaves it where it is. */
export type Queue = Keys & Iterable<string> & { readonly size: number }

/** Queues by name. A `Map` is one in memory; `keys` names at least those that hold something. */
export type Queues = {
  get(name: string): Queue | undefined
  set(name: string, queue: Queue): unknown
  delete(name: string): unknown
  keys(): Iterable<string>
}

/** An append-only list that only tools which read a whole line need: a list in memory there, a no-op in services. */
export type Journal<T> = { push(item: T): unknown }
