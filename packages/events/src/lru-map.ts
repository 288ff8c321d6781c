type Entry<K, V> = { key: K; value: V; older: Entry<K, V> | null; newer: Entry<K, V> | null }

/**
 * A map ordered by the last `set` of each key, oldest first, with eviction in constant time. In a `Map`, deleting the
 * first entry repeatedly skips the slots of all deleted entries (10 µs per eviction with 20,000 entries).
 */
export class LruMap<K, V> {
  readonly #entries = new Map<K, Entry<K, V>>()
  #oldest: Entry<K, V> | null = null
  #newest: Entry<K, V> | null = null

  get size(): number {
    return this.#entries.size
  }

  get(key: K): V | undefined {
    return this.#entries.get(key)?.value
  }

  has(key: K): boolean {
    return this.#entries.has(key)
  }

  /** Sets the value of a key, new or existing, and makes it the newest entry. */
  set(key: K, value: V): void {
    let entry = this.#entries.get(key)
    if (entry) {
      entry.value = value
      if (entry === this.#newest) return
      this.#unlink(entry)
    } else {
      entry = { key, value, older: null, newer: null }
      this.#entries.set(key, entry)
    }
    entry.older = this.#newest
    entry.newer = null
    if (this.#newest) this.#newest.newer = entry
    else this.#oldest = entry
    this.#newest = entry
  }

  delete(key: K): boolean {
    const entry = this.#entries.get(key)
    if (!entry) return false
    this.#entries.delete(key)
    this.#unlink(entry)
    return true
  }

  /** From the newest to the oldest. The map must not change meanwhile. */
  *newestFirst(): Generator<readonly [K, V]> {
    for (let entry = this.#newest; entry; entry = entry.older) yield [entry.key, entry.value]
  }

  /** The key whose last `set` is longest ago; undefined for an empty map. */
  oldest(): K | undefined {
    return this.#oldest?.key
  }

  /** Oldest first. */
  *keys(): Generator<K> {
    for (let entry = this.#oldest; entry; entry = entry.newer) yield entry.key
  }

  #unlink({ older, newer }: Entry<K, V>): void {
    if (older) older.newer = newer
    else this.#oldest = newer
    if (newer) newer.older = older
    else this.#newest = older
  }
}
