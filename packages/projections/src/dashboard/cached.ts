/**
 * A value that is computed at most once at a time and is up to `ageMs` old. If `stale` is set, callers get an older value at
 * once while the next is computed; without it they wait for that one.
 */
export class Cached<T> {
  private readonly compute: () => Promise<T>
  private readonly ageMs: number
  private readonly monotonic: () => number
  private value: { of: T; at: number } | null = null
  private running: Promise<T> | null = null

  private readonly stale: boolean

  constructor(compute: () => Promise<T>, ageMs: number, monotonic: () => number, stale = true) {
    this.compute = compute
    this.ageMs = ageMs
    this.monotonic = monotonic
    this.stale = stale
  }

  /** Rejects as `compute`, if there is no value younger than ten times `ageMs`. */
  async get(): Promise<T> {
    const { value } = this
    const age = value ? this.monotonic() - value.at : Infinity
    if (value && age < this.ageMs) return value.of
    const next = (this.running ??= this.refresh())
    if (!value || !this.stale || age > 10 * this.ageMs) return next
    next.catch(() => undefined)
    return value.of
  }

  private async refresh(): Promise<T> {
    try {
      const of = await this.compute()
      this.value = { of, at: this.monotonic() }
      return of
    } finally {
      this.running = null
    }
  }
}
