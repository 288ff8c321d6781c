/**
 * Waits between tries: `firstMs`, then twice the last one (`linear`: `firstMs` more), `longestMs` at most. No jitter:
 * what is tried again here is one process's own work, and a test of it knows when it comes.
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

  /** It worked: the next wait is the first again. */
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
