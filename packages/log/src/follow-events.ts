/** How the services read: records decoded into events, with the one rule for bytes that cannot be read. */
import { decodeRecord, FLOW, InstarError, type Logged } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { follow, type Follower } from './follow.ts'
import type { EventLog, LogRecord, Offsets } from './port.ts'

export type FollowEventsOptions = {
  name: string
  topics: readonly Topic[]
  /** Default: the start of the log. */
  from?: Offsets
  onEvent(logged: Logged): Promise<void> | void
  /** Told of a record that is bad for everyone; it is left where it is and skipped. */
  onBad?(record: LogRecord, error: InstarError): void
}

/**
 * In order per partition. A record that nobody can decode is skipped on `turns`, `scores` and `blobs`; on
 * a chain, and for a type that only a newer build knows, the reader must stop: `done` rejects.
 */
export const followEvents = (log: EventLog, options: FollowEventsOptions): Promise<Follower> =>
  follow<Logged | null>(log, {
    name: options.name,
    topics: options.topics,
    from: options.from ?? 'start',
    decode(record) {
      try {
        return decodeRecord(record)
      } catch (error) {
        if (error instanceof InstarError && error.code === 'bad_record' && !FLOW[record.topic].chain) {
          options.onBad?.(record, error)
          return null
        }
        throw error
      }
    },
    onEvent: (logged) => (logged ? options.onEvent(logged) : undefined),
  })
