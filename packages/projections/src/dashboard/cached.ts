/**
 * A value that is computed at most once at a time and is up to `ageMs` old. If `stale` is set, callers get an older value at
 * once while the next is computed; without it they wait for that one. A value that a caller refuses is computed again.
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

  /**
   * Waits for a newer value if `accept` refuses the present one, and for one more if a computation that had begun before
   * gives another that it refuses. Rejects as `compute`, if there is no value younger than ten times `ageMs` to give.
   */
  async get(accept: (value: T) => boolean = () => true): Promise<T> {
    const { value } = this
    const age = value ? this.monotonic() - value.at : Infinity
    const accepted = value !== null && accept(value.of)
    if (accepted && age < this.ageMs) return value.of
    const begun = this.running !== null
    const next = (this.running ??= this.refresh())
    if (!accepted || !this.stale || age > 10 * this.ageMs) {
      const of = await next
      return begun && !accept(of) ? (this.running ??= this.refresh()) : of
    }
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
