/** Trying again. */
import { InstarError } from '@instar/events/errors'
import { setTimeout as delay } from 'node:timers/promises'
import { messageOf } from './client.ts'

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 2_000

/** Growing pauses; ends early, without an error, when the signal comes. */
export class Pauses {
  #next = FIRST_WAIT_MS

  reset(): void {
    this.#next = FIRST_WAIT_MS
  }

  async pause(signal: AbortSignal): Promise<void> {
    const wait = this.#next
    this.#next = Math.min(2 * wait, LONGEST_WAIT_MS)
    await rest(wait, signal)
  }
}

/** Milliseconds; ends early, without an error, when the signal comes. */
export const rest = async (ms: number, signal: AbortSignal): Promise<void> => {
  try {
    await delay(ms, undefined, { signal })
  } catch (cause) {
    if (!signal.aborted) throw cause
  }
}

/**
 * Until it works. An InstarError that no later try can better is thrown on at once, anything else after
 * `deadline` milliseconds (or when the signal comes) as `log_unavailable`.
 */
export const patiently = async <T>(
  what: string,
  work: () => Promise<T>,
  deadline: number,
  signal: AbortSignal,
): Promise<T> => {
  const end = performance.now() + deadline
  const pauses = new Pauses()
  for (;;) {
    try {
      return await work()
    } catch (cause) {
      if (cause instanceof InstarError && (!cause.retryable || signal.aborted)) throw cause
      if (signal.aborted || performance.now() >= end)
        throw new InstarError('log_unavailable', `Kafka: ${what}: ${messageOf(cause)}`, {}, { cause })
      await pauses.pause(signal)
    }
  }
}
