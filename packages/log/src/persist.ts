/** Appends until it is done: for services, whose records repeat harmlessly. */
import { InstarError, type Encoded } from '@instar/events'
import { setTimeout as delay } from 'node:timers/promises'
import type { EventLog } from './port.ts'

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 5_000

/**
 * Resolves when the records are durable. A fault that passes (full queue, log away) is tried again with the
 * same bytes; anything else, or the signal, rejects.
 */
export const persist = async (log: EventLog, records: readonly Encoded[], signal: AbortSignal): Promise<void> => {
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    signal.throwIfAborted()
    try {
      await log.append(
        records.map(({ topic, key, schema, payload, timestamp }) => ({ topic, key, schema, payload, timestamp })),
      )
      return
    } catch (error) {
      if (!(error instanceof InstarError) || !error.retryable) throw error
      await delay(wait, undefined, { signal })
    }
  }
}
