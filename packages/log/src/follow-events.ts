/** A subscription that decodes events and skips unreadable records. */
import { decodeRecord, InstarError, type Logged } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { follow, type Follower } from './follow.ts'
import type { EventLog, LogRecord, Offsets, SubscribeOptions } from './port.ts'
import { applyUpgrade } from './upgrades.ts'

type FollowEventsOptions = {
  name: string
  topics: readonly Topic[]
  /** Default: the start of the log. */
  from?: Offsets
  gather?: SubscribeOptions['gather']
  byPartition?: SubscribeOptions['byPartition']
  onEvent(logged: Logged): Promise<void> | void
  /** Called for a record that no build can decode. The record stays on the log and is skipped. */
  onBad?(record: LogRecord, error: InstarError): void
}

/**
 * Delivers events in order per partition. A record that no build can decode is skipped and, if the log has dead
 * letters, copied to them first. If the skipped record was part of a chain, the fold fails at its successor
 * (`log_gap`). `done` rejects at a record type that only a newer build supports. The topic `upgrades` is always read
 * from its start, so that `versionsOn(log)` is complete once the follower has caught up.
 */
export const followEvents = (log: EventLog, options: FollowEventsOptions): Promise<Follower> =>
  follow<Logged | Unreadable>(log, {
    name: options.name,
    topics: [...new Set<Topic>([...options.topics, 'upgrades'])],
    from: options.from ?? 'start',
    ...(options.gather ? { gather: options.gather } : {}),
    ...(options.byPartition ? { byPartition: options.byPartition } : {}),
    decode(record) {
      try {
        return decodeRecord(record)
      } catch (error) {
        if (error instanceof InstarError && error.code === 'bad_record') return { unreadable: error }
        throw error
      }
    },
    async onEvent(decoded, record) {
      if (!('unreadable' in decoded)) {
        if (decoded.event.type === 'ReadersUpgraded') applyUpgrade(log, decoded.event)
        return record.topic === 'upgrades' && !options.topics.includes('upgrades')
          ? undefined
          : options.onEvent(decoded)
      }
      options.onBad?.(record, decoded.unreadable)
      await log.deadLetter?.(
        { topic: record.topic, partition: record.partition, offset: record.offset },
        decoded.unreadable.message,
      )
    },
  })

type Unreadable = { unreadable: InstarError }
