/** A value is used for this many times as long as computing it took, so that it takes at most a twentieth of the time. */
const REST = 20

/**
 * A value that is computed at most once at a time and is up to `ageMs` old, or up to `REST` times the time that it took. If
 * `stale` is set, callers get an older value at once while the next is computed; without it they wait for that one. A value
 * that a caller refuses is computed again.
 */
export class Cached<T> {
  private readonly compute: () => Promise<T>
  private readonly ageMs: number
  private readonly monotonic: () => number
  private value: { of: T; at: number; ageMs: number } | null = null
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
   * gives another that it refuses. Rejects as `compute`, if there is no value younger than ten times that age to give.
   */
  async get(accept: (value: T) => boolean = () => true): Promise<T> {
    const { value } = this
    const age = value ? this.monotonic() - value.at : Infinity
    const accepted = value !== null && accept(value.of)
    if (accepted && age < value.ageMs) return value.of
    const begun = this.running !== null
    const next = (this.running ??= this.refresh())
    if (!accepted || !this.stale || age > 10 * value.ageMs) {
      const of = await next
      return begun && !accept(of) ? (this.running ??= this.refresh()) : of
    }
    next.catch(() => undefined)
    return value.of
  }

  private async refresh(): Promise<T> {
    const begun = this.monotonic()
    try {
      const of = await this.compute()
      const at = this.monotonic()
      this.value = { of, at, ageMs: Math.max(this.ageMs, REST * (at - begun)) }
      return of
    } finally {
      this.running = null
    }
  }
}
