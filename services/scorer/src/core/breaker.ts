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

/** Keys whose failures and opinions are counted: those heard last. */
export const MOST_KEYS = 1000

export type SteppedDown = 'failed' | 'drifted'

/**
 * Breakers of one judge. What shows that its endpoint does not work counts for all; replies that are no verdict, and
 * opinions that contradict people, count for the API key of the turn alone: the person behind a key chooses what the
 * model is asked to judge.
 */
export class Breakers {
  readonly #settings: BreakerSettings
  readonly #endpoint: Breaker
  /** Least recently used first. */
  readonly #keys = new Map<string | null, Breaker>()

  constructor(settings: BreakerSettings) {
    this.#settings = settings
    this.#endpoint = new Breaker(settings)
  }

  get size(): number {
    return this.#keys.size
  }

  /** Why the fallback judges turns of the key; null: the model does. */
  downFor(key: string | null): SteppedDown | null {
    return this.#endpoint.down ?? this.#keys.get(key)?.down ?? null
  }

  /** Why the fallback judges for all keys, or for some. */
  get down(): SteppedDown | null {
    return this.#endpoint.down ?? [...this.#keys.values()].find(({ down }) => down !== null)?.down ?? null
  }

  asks(key: string | null, now: number): boolean {
    return this.#of(key).asks(now) && this.#endpoint.asks(now)
  }

  /** `byEndpoint`: another turn would fail alike. */
  failed(key: string | null, byEndpoint: boolean, now: number): void {
    if (byEndpoint) this.#endpoint.failed(now)
    else {
      // It has replied.
      this.#endpoint.answered(null, now)
      this.#of(key).failed(now)
    }
  }

  answered(key: string | null, alike: boolean | null, now: number): void {
    this.#endpoint.answered(null, now)
    this.#of(key).answered(alike, now)
  }

  #of(key: string | null): Breaker {
    const breaker = this.#keys.get(key) ?? new Breaker(this.#settings)
    this.#keys.delete(key)
    this.#keys.set(key, breaker)
    if (this.#keys.size > MOST_KEYS) this.#keys.delete(this.#keys.keys().next().value!)
    return breaker
  }
}

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
