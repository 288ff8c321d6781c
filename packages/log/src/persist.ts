/** Appends with retries, for records whose duplicates are dropped by id. */
import { InstarError, type Encoded } from '@instar/events'
import { Backoff } from './backoff.ts'
import type { EventLog } from './port.ts'

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 5_000

/**
 * Resolves when the records are durable. Retries retryable errors (full queue, log unavailable) with the same bytes.
 * Rejects with any other error, and with the reason of the signal.
 */
export const persist = async (log: EventLog, records: readonly Encoded[], signal: AbortSignal): Promise<void> => {
  const backoff = new Backoff({ firstMs: FIRST_WAIT_MS, longestMs: LONGEST_WAIT_MS })
  for (;;) {
    signal.throwIfAborted()
    try {
      await log.append(
        records.map(({ topic, key, schema, payload, timestamp }) => ({ topic, key, schema, payload, timestamp })),
      )
      return
    } catch (error) {
      if (!(error instanceof InstarError) || !error.retryable) throw error
      await backoff.wait(signal)
    }
  }
}
