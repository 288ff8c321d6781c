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
