/**
 * Delays between retries: `firstMs`, then doubled (`linear`: plus `firstMs`), up to `longestMs`. No jitter: each loop
 * retries its own work in one process, and tests rely on the delays.
 */
import { setTimeout as delay } from 'node:timers/promises'

export type BackoffOptions = { firstMs: number; longestMs: number; growth?: 'doubling' | 'linear' }

export class Backoff {
  readonly #options: BackoffOptions
  #nextMs: number

  constructor(options: BackoffOptions) {
    this.#options = options
    this.#nextMs = options.firstMs
  }

  /** Call after a success: the next delay is the first again. */
  reset(): void {
    this.#nextMs = this.#options.firstMs
  }

  /** How long to wait now, ms; the next call gives a longer wait. */
  next(): number {
    const { firstMs, longestMs, growth } = this.#options
    const wait = Math.min(this.#nextMs, longestMs)
    this.#nextMs = Math.min(growth === 'linear' ? wait + firstMs : wait * 2, longestMs)
    return wait
  }

  /** Ends early, without an error, when the signal is aborted. */
  wait(signal: AbortSignal): Promise<void> {
    return sleep(this.next(), signal)
  }
}

/** Milliseconds; ends early, without an error, when the signal is aborted. */
export const sleep = async (ms: number, signal: AbortSignal): Promise<void> => {
  try {
    await delay(ms, undefined, { signal })
  } catch (cause) {
    if (!signal.aborted) throw cause
  }
}
