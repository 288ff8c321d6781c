/** A map of limited size. The entry that was set longest ago is evicted first. */
export class Remembered<T> {
  private readonly entries = new Map<string, { value: T; bytes: number }>()
  private readonly most: number
  private readonly mostBytes: number
  private held = 0

  /** `most`: entries; `mostBytes`: their bytes together, as `set` is told. The newest entry is always kept. */
  constructor({ most, mostBytes = Infinity }: { most: number; mostBytes?: number }) {
    this.most = most
    this.mostBytes = mostBytes
  }

  get size(): number {
    return this.entries.size
  }

  get bytes(): number {
    return this.held
  }

  get(name: string): T | undefined {
    return this.entries.get(name)?.value
  }

  set(name: string, value: T, bytes = 0): void {
    this.delete(name)
    this.entries.set(name, { value, bytes })
    this.held += bytes
    for (const oldest of this.entries.keys()) {
      if (this.entries.size <= this.most && (this.held <= this.mostBytes || this.entries.size === 1)) break
      this.delete(oldest)
    }
  }

  delete(name: string): void {
    this.held -= this.entries.get(name)?.bytes ?? 0
    this.entries.delete(name)
  }
}

/**
 * As `Remembered`, for entries of several keys: beyond the limit the key that holds the largest share loses its oldest
 * entry, so that no key evicts entries of one that holds less.
 */
export class SharedMemory<T> {
  private readonly entries = new Map<string, { value: T; bytes: number; key: string }>()
  /** By key: its entries, oldest first, and their bytes. */
  private readonly shares = new Map<string, { names: Set<string>; bytes: number }>()
  private readonly most: number
  private readonly mostBytes: number
  private held = 0

  /** `most`: entries of all keys; `mostBytes`: their bytes together. The newest entry is always kept. */
  constructor({ most, mostBytes }: { most: number; mostBytes: number }) {
    this.most = most
    this.mostBytes = mostBytes
  }

  get size(): number {
    return this.entries.size
  }

  get(name: string): T | undefined {
    return this.entries.get(name)?.value
  }

  set(key: string | null, name: string, value: T, bytes: number): void {
    this.delete(name)
    const owner = key ?? ''
    const share = this.shares.get(owner) ?? { names: new Set(), bytes: 0 }
    this.shares.set(owner, share)
    this.entries.set(name, { value, bytes, key: owner })
    share.names.add(name)
    share.bytes += bytes
    this.held += bytes
    while (this.entries.size > 1 && (this.entries.size > this.most || this.held > this.mostBytes))
      this.delete(this.surplus(name))
  }

  /** The oldest entry of the key with the largest share; never `newest`. */
  private surplus(newest: string): string {
    let largest = -1
    let found = newest
    for (const { names, bytes } of this.shares.values()) {
      const [oldest] = names as unknown as [string]
      const size = Math.max(names.size / this.most, bytes / this.mostBytes)
      if (oldest === newest || size <= largest) continue
      largest = size
      found = oldest
    }
    return found
  }

  private delete(name: string): void {
    const entry = this.entries.get(name)
    if (!entry) return
    const share = this.shares.get(entry.key)!
    this.entries.delete(name)
    share.names.delete(name)
    share.bytes -= entry.bytes
    this.held -= entry.bytes
    if (share.names.size === 0) this.shares.delete(entry.key)
  }
}
