/** Trying again. */
import { InstarError } from '@instar/events/errors'
import { Backoff } from '../backoff.ts'
import { messageOf } from './client.ts'

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 2_000

export const kafkaBackoff = (): Backoff => new Backoff({ firstMs: FIRST_WAIT_MS, longestMs: LONGEST_WAIT_MS })

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
