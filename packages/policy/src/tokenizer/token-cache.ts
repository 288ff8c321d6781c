/** A least-recently-used cache of encoded texts: a conversation sends its earlier messages with every request. */

/** Overhead of an entry, counted in characters: short texts are not free. */
const ENTRY = 64

export class TokenCache {
  /** Ordered by last use, oldest first. */
  private readonly ids = new Map<string, readonly number[]>()
  private readonly limit: number
  private held = 0

  /** `limit`: characters of all texts together, overhead included. */
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

  /** `text` must not be held already. */
  put(text: string, ids: readonly number[]): void {
    const cost = text.length + ENTRY
    if (cost > this.limit) return
    // Copied: a slice of a longer string would keep all of that string in memory.
    this.ids.set(Buffer.from(text, 'utf16le').toString('utf16le'), ids)
    this.held += cost
    for (const oldest of this.ids.keys()) {
      if (this.held <= this.limit) return
      this.ids.delete(oldest)
      this.held -= oldest.length + ENTRY
    }
  }
}
