/** How the services read: records decoded into events, with the one rule for bytes that cannot be read. */
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
  /** Told of a record that is bad for everyone; it is left where it is and skipped. */
  onBad?(record: LogRecord, error: InstarError): void
}

/**
 * In order per partition. A record that nobody can decode is skipped and, where the log keeps dead letters, copied
 * to them first; on a chain too, where a record that counted is missed by its successor (`log_gap`). For a type that
 * only a newer build knows the reader must stop: `done` rejects. `upgrades` is read beside the topics, from its start, so that
 * `versionsOn` the log is right once it has caught up.
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
