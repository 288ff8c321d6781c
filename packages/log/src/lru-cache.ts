import { LruMap } from '@instar/events'

/**
 * A least-recently-used cache of at most `maxValues` values and `maxBytes` bytes. A value larger than `maxBytes` is not
 * cached. `sizeOf`: a value's size in bytes.
 */
export class LruCache<T> {
  private readonly values = new LruMap<string, T>()
  private readonly maxValues: number
  private readonly maxBytes: number
  private readonly sizeOf: (value: T) => number
  private usedBytes = 0

  constructor(maxValues: number, maxBytes: number, sizeOf: (value: T) => number) {
    this.maxValues = maxValues
    this.maxBytes = maxBytes
    this.sizeOf = sizeOf
  }

  get bytes(): number {
    return this.usedBytes
  }

  get(key: string): T | undefined {
    const value = this.values.get(key)
    if (value !== undefined) this.values.set(key, value)
    return value
  }

  set(key: string, value: T): void {
    this.delete(key)
    if (this.sizeOf(value) > this.maxBytes) return
    this.usedBytes += this.sizeOf(value)
    this.values.set(key, value)
    while (this.values.size > 0 && (this.values.size > this.maxValues || this.usedBytes > this.maxBytes))
      this.delete(this.values.oldest()!)
  }

  private delete(key: string): void {
    const value = this.values.get(key)
    if (value === undefined) return
    this.usedBytes -= this.sizeOf(value)
    this.values.delete(key)
  }
}
