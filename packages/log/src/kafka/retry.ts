/** Retries of requests to Kafka. */
import { InstarError } from '@instar/events/errors'
import { Backoff } from '../backoff.ts'
import { messageOf } from './client.ts'

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 2_000

export const kafkaBackoff = (): Backoff => new Backoff({ firstMs: FIRST_WAIT_MS, longestMs: LONGEST_WAIT_MS })

/**
 * Retries `work` until it succeeds. An InstarError that is not retryable is thrown at once; any other error as
 * `log_unavailable` after `retryMs` milliseconds or when the signal is aborted. `what` is part of that error's message.
 */
export const withRetries = async <T>(
  what: string,
  work: () => Promise<T>,
  retryMs: number,
  signal: AbortSignal,
): Promise<T> => {
  const end = performance.now() + retryMs
  const backoff = kafkaBackoff()
  for (;;) {
    try {
      return await work()
    } catch (cause) {
      if (cause instanceof InstarError && (!cause.retryable || signal.aborted)) throw cause
      if (signal.aborted || performance.now() >= end)
        throw new InstarError('log_unavailable', `Kafka: ${what}: ${messageOf(cause)}`, {}, { cause })
      await backoff.wait(signal)
    }
  }
}
