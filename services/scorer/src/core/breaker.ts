/**
 * Whether a judging model is in force. It steps down after failures in a row, and when too few of its opinions have the
 * sign of the fallback's; then the fallback judges, and the model is tried again now and then with one turn.
 */
export type BreakerSettings = {
  /** Failures in a row after which the fallback takes over; 0: never. */
  failures: number
  /** The least share of the last COMPARED opinions with the sign of the fallback's; 0: no such bound. */
  agreement: number
  /** Milliseconds between two tries while the fallback judges. */
  retryMs: number
}

/** Opinions on which model and fallback are compared, newest. */
export const COMPARED = 48

export type SteppedDown = 'failed' | 'drifted'

export class Breaker {
  readonly #settings: BreakerSettings
  #failures = 0
  /** Of the newest opinions: has it the fallback's sign? */
  #alike: boolean[] = []
  #triedAt = 0
  #down: SteppedDown | null = null

  constructor(settings: BreakerSettings) {
    this.#settings = settings
  }

  /** Why the fallback judges; null: the model does. */
  get down(): SteppedDown | null {
    return this.#down
  }

  /** Is the model to be asked about a turn at `now`? While the fallback judges, true once in `retryMs`. */
  asks(now: number): boolean {
    if (this.#down === null) return true
    const since = now - this.#triedAt
    // Negative where the clock was set back.
    if (since >= 0 && since < this.#settings.retryMs) return false
    this.#triedAt = now
    return true
  }

  failed(now: number): void {
    this.#failures += 1
    if (this.#down === null && this.#settings.failures > 0 && this.#failures >= this.#settings.failures)
      this.#stepDown('failed', now)
  }

  /** `alike`: its opinion has the sign of the fallback's; null: one of them has none. */
  answered(alike: boolean | null, now: number): void {
    this.#failures = 0
    if (alike !== null) this.#alike = [...this.#alike, alike].slice(-COMPARED)
    const drifted =
      this.#alike.length >= COMPARED &&
      this.#alike.filter(Boolean).length < this.#settings.agreement * this.#alike.length
    if (!drifted) this.#down = null
    else if (this.#down !== 'drifted') this.#stepDown('drifted', now)
  }

  #stepDown(why: SteppedDown, now: number): void {
    this.#down = why
    this.#triedAt = now
  }
}
