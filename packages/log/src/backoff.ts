/**
 * Delays between retries: `firstMs`, then doubled (`linear`: plus `firstMs`), up to `longestMs`. Without jitter, since
 * each loop retries the work of one process, and tests depend on the delays.
 */
import { setTimeout as delay } from 'node:timers/promises'

type BackoffOptions = { firstMs: number; longestMs: number; growth?: 'doubling' | 'linear' }

export class Backoff {
  readonly #options: BackoffOptions
  #nextMs: number

  constructor(options: BackoffOptions) {
    this.#options = options
    this.#nextMs = options.firstMs
  }

  /** Resets the next delay to `firstMs`. Call it after a success. */
  reset(): void {
    this.#nextMs = this.#options.firstMs
  }

  /** Returns the delay in milliseconds and increases the next one. */
  next(): number {
    const { firstMs, longestMs, growth } = this.#options
    const wait = Math.min(this.#nextMs, longestMs)
    this.#nextMs = Math.min(growth === 'linear' ? wait + firstMs : wait * 2, longestMs)
    return wait
  }

  /** Waits for the next delay. Resolves early when the signal is aborted. */
  wait(signal: AbortSignal): Promise<void> {
    return sleep(this.next(), signal)
  }
}

/** The longest delay of a timer, 24.8 days; Node starts one of 1 ms in place of a longer one. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Waits for `ms` milliseconds. Resolves early when the signal is aborted. */
export const sleep = async (ms: number, signal: AbortSignal): Promise<void> => {
  try {
    await delay(ms, undefined, { signal })
  } catch (cause) {
    if (!signal.aborted) throw cause
  }
}
