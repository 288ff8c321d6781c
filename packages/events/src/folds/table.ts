/**
 * What a fold keeps by key. A `Map` and a `Set` are one in memory; a service that has to remember more than
 * memory holds gives the same folds a store (packages/log/src/snapshots). So a fold asks for what it needs by
 * key and walks over nothing, and sets again what it has changed in place.
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

/** What only readers of a whole line look at: a list in memory, nothing in a service that runs for ever. */
export type Journal<T> = { push(item: T): unknown }
