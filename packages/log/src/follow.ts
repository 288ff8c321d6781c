/**
 * Subscribes a service to topics: decodes every record and passes it to the handler in order. Yields to the event loop
 * every `burst` records, independent of the adapter's batch size.
 */
import { setImmediate } from 'node:timers/promises'
import type { Topic } from '@instar/events/flow'
import type { EventLog, LogRecord, Offsets, Position, SubscribeOptions, Subscription } from './port.ts'

type FollowOptions<E> = {
  /** The group whose commits `from: 'committed'` continues. */
  name: string
  topics: readonly Topic[]
  from: SubscribeOptions['from']
  gather?: SubscribeOptions['gather']
  byPartition?: SubscribeOptions['byPartition']
  /** An error stops the follower. */
  decode(record: LogRecord): E
  /** Called in order per partition; the next event waits for the promise. An error stops the follower. */
  onEvent(event: E, record: LogRecord): Promise<void> | void
  /** Maximum number of events between two turns of the event loop. Default 64. */
  burst?: number
}

export type Follower = Pick<Subscription, 'take' | 'release'> & {
  /** Resolves when all records that were on the log at the call have been handled. Rejects once stopped. */
  caughtUp(): Promise<void>
  /** The next offset to handle of each partition of which a record was handled. */
  positions(): Offsets
  /** Commits `positions()` for the group; durable when it resolves. */
  commit(): Promise<void>
  /** Resolves when the last running handler has returned. */
  stop(): Promise<void>
  /** Rejects with an error of `decode` or `onEvent`. Resolves after `stop`. */
  readonly done: Promise<void>
}

export const follow = async <E>(log: EventLog, options: FollowOptions<E>): Promise<Follower> => {
  const { name, topics, from, gather, byPartition, decode, onEvent, burst = 64 } = options
  const next = new Map<Topic, Map<number, number>>(topics.map((topic) => [topic, new Map()]))
  let consecutive = 0
  const subscription = await log.subscribe({
    topics,
    group: name,
    from,
    ...(gather ? { gather } : {}),
    ...(byPartition ? { byPartition } : {}),
    async handle(records) {
      for (const record of records) {
        if (consecutive++ >= burst) {
          await setImmediate()
          consecutive = 1
        }
        const pending = onEvent(decode(record), record)
        if (pending) await pending
        next.get(record.topic)!.set(record.partition, record.offset + 1)
      }
    },
  })
  const positions = (): Position[] =>
    [...next].flatMap(([topic, partitions]) =>
      [...partitions].map(([partition, offset]) => ({ topic, partition, offset })),
    )
  return {
    caughtUp: () => subscription.caughtUp(),
    take: (partition, offset) => subscription.take(partition, offset),
    release: (partition) => subscription.release(partition),
    positions: () =>
      Object.fromEntries([...next].map(([topic, partitions]) => [topic, Object.fromEntries(partitions)])),
    commit: () => subscription.commit(positions()),
    stop: () => subscription.stop(),
    done: subscription.done,
  }
}
