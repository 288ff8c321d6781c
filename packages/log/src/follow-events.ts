/** Decoded subscription to topics, with the one rule for unreadable records. */
import { decodeRecord, InstarError, type Logged } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { follow, type Follower } from './follow.ts'
import type { EventLog, LogRecord, Offsets } from './port.ts'
import { heardUpgrade } from './upgrades.ts'

type FollowEventsOptions = {
  name: string
  topics: readonly Topic[]
  /** Default: the start of the log. */
  from?: Offsets
  onEvent(logged: Logged): Promise<void> | void
  /** Called for a record that no build can read; it stays on the log and is skipped. */
  onBad?(record: LogRecord, error: InstarError): void
}

/**
 * Delivers events in order per partition. A record that no build can read is skipped and, where the log has dead
 * letters, copied to them first. On a chain the reader then fails at the successor of a skipped record that counted
 * (`log_gap`). `done` rejects for a type that only a newer build supports. The topic `upgrades` is always read from
 * its start, so that `versionsOn(log)` is correct once the follower has caught up.
 */
export const followEvents = (log: EventLog, options: FollowEventsOptions): Promise<Follower> =>
  follow<Logged | Unreadable>(log, {
    name: options.name,
    topics: [...new Set<Topic>([...options.topics, 'upgrades'])],
    from: options.from ?? 'start',
    decode(record) {
      try {
        return decodeRecord(record)
      } catch (error) {
        if (error instanceof InstarError && error.code === 'bad_record') return { unreadable: error }
        throw error
      }
    },
    async onEvent(read, record) {
      if (!('unreadable' in read)) {
        if (read.event.type === 'ReadersUpgraded') heardUpgrade(log, read.event)
        return record.topic === 'upgrades' && !options.topics.includes('upgrades') ? undefined : options.onEvent(read)
      }
      options.onBad?.(record, read.unreadable)
      await log.deadLetter?.(
        { topic: record.topic, partition: record.partition, offset: record.offset },
        read.unreadable.message,
      )
    },
  })

type Unreadable = { unreadable: InstarError }
