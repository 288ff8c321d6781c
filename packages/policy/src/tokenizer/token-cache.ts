/**
 * A least-recently-used cache of the ids of encoded texts. It saves work because a conversation sends its earlier
 * messages again with every request.
 */

/** Overhead of an entry, in characters, in addition to its text. */
const ENTRY = 64

export class TokenCache {
  /** Ordered by last use, oldest first. */
  private readonly ids = new Map<string, readonly number[]>()
  private readonly limit: number
  /** Characters of all texts, overhead included. */
  private size = 0

  /** `limit`: most characters of all texts, overhead included. */
  constructor(limit: number) {
    this.limit = limit
  }

  get(text: string): readonly number[] | undefined {
    const ids = this.ids.get(text)
    if (!ids) return undefined
    this.ids.delete(text)
    this.ids.set(text, ids)
    return ids
  }

  /** Adds a text that is not in the cache. A text that exceeds the limit by itself is not added. */
  add(text: string, ids: readonly number[]): void {
    const cost = text.length + ENTRY
    if (cost > this.limit) return
    // A copy: a slice of a longer string would keep the whole string in memory.
    this.ids.set(Buffer.from(text, 'utf16le').toString('utf16le'), ids)
    this.size += cost
    for (const oldest of this.ids.keys()) {
      if (this.size <= this.limit) return
      this.ids.delete(oldest)
      this.size -= oldest.length + ENTRY
    }
  }
}
