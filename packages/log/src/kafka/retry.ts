/** Retries of requests to Kafka. */
import { InstarError } from '@instar/events/errors'
import { Backoff } from '../backoff.ts'
import { messageOf } from './client.ts'

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 2_000

export const kafkaBackoff = (): Backoff => new Backoff({ firstMs: FIRST_WAIT_MS, longestMs: LONGEST_WAIT_MS })

/**
 * Retries `work` until it succeeds. An InstarError that is not retryable is thrown at once; any other error as
 * `log_unavailable` after `retryMs` milliseconds or when the signal is aborted. `what` is part of that error's message. `report`
 * gets a line at the first failure and one at the success that follows.
 */
export const withRetries = async <T>(
  what: string,
  work: () => Promise<T>,
  retryMs: number,
  signal: AbortSignal,
  report?: (line: string) => void,
): Promise<T> => {
  let reported = false
  const end = performance.now() + retryMs
  const backoff = kafkaBackoff()
  for (;;) {
    try {
      const result = await work()
      if (reported) report?.(`Kafka: ${what} works again`)
      return result
    } catch (cause) {
      if (cause instanceof InstarError && (!cause.retryable || signal.aborted)) throw cause
      if (signal.aborted || performance.now() >= end)
        throw new InstarError('log_unavailable', `Kafka: ${what}: ${messageOf(cause)}`, {}, { cause })
      if (!reported) report?.(`Kafka: ${what} fails (${messageOf(cause)}); retrying`)
      reported = true
      await backoff.wait(signal)
    }
  }
}
