import { LruMap } from '@instar/events'

/**
 * A least-recently-used cache, limited to `most` values and `bytes` in all. A value larger than `bytes` is not
 * cached.
 */
export class LruCache<T> {
  private readonly values = new LruMap<string, T>()
  private readonly most: number
  private readonly bytes: number
  private readonly weigh: (value: T) => number
  private held = 0

  constructor(most: number, bytes: number, weigh: (value: T) => number) {
    this.most = most
    this.bytes = bytes
    this.weigh = weigh
  }

  get(key: string): T | undefined {
    const value = this.values.get(key)
    if (value !== undefined) this.values.set(key, value)
    return value
  }

  set(key: string, value: T): void {
    this.delete(key)
    if (this.weigh(value) > this.bytes) return
    this.held += this.weigh(value)
    this.values.set(key, value)
    while (this.values.size > 0 && (this.values.size > this.most || this.held > this.bytes))
      this.delete(this.values.oldest()!)
  }

  private delete(key: string): void {
    const value = this.values.get(key)
    if (value === undefined) return
    this.held -= this.weigh(value)
    this.values.delete(key)
  }
}
