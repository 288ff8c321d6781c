/** Bounded reads of a `Store`, in pages. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { cutAway } from './cuts.ts'
import { partitionOf } from './partition.ts'
import type { LogRecord, ReadOptions } from './port.ts'
import type { Store } from './store.ts'

/** Maximum size of a page in payload bytes, unless it has a single record, and in records. */
export const PAGE_BYTES = 1 << 20
export const PAGE_RECORDS = 512

/** The end of a topic. Throws `data_unreadable` if one of a partition is no number: the topic must not read as empty. */
export const endOf = (topic: Topic, ends: readonly number[]): number => {
  const end = Math.max(0, ...ends)
  if (Number.isFinite(end)) return end
  throw new InstarError(
    'data_unreadable',
    `the ends of the partitions of ${topic} cannot be read: restore the log from a copy`,
    { topic },
  )
}

/** The start offset of each partition. Throws `position_unknown` for an offset or partition beyond the log. */
export const startsOf = (topic: Topic, starts: Readonly<Record<number, number>>, ends: readonly number[]): number[] => {
  for (const [partition, offset] of Object.entries(starts)) {
    const end = ends[Number(partition)]
    if (end === undefined || !Number.isSafeInteger(offset) || offset < 0 || offset > end) {
      throw new InstarError(
        'position_unknown',
        `${topic} ${partition}@${offset} is not a position of this log: ${end === undefined ? 'there is no such partition' : `the partition ends at ${end}`}`,
        { topic, partition: Number(partition), offset, end: end ?? null },
      )
    }
  }
  return ends.map((_, partition) => starts[partition] ?? 0)
}

/** Throws `cutAway` where a partition would be read from below what the store holds. `only`: this partition alone is read. */
export const requireHeld = (
  store: Pick<Store, 'starts'>,
  topic: Topic,
  starts: readonly number[],
  only?: number,
): void => {
  for (const [partition, held] of store.starts(topic).entries())
    if (held > 0 && starts[partition]! < held && (only === undefined || only === partition))
      throw cutAway(topic, partition, held)
}

/** The first offset of each partition that a reader at the cursor has not read. */
export const unreadFrom = (starts: readonly number[], cursor: number): number[] =>
  starts.map((start) => Math.max(start, cursor))

/** The topic-wide offset of the first record at or after `starts`; `end` if there is none. */
export const cursorOf = (store: Store, topic: Topic, starts: readonly number[], end: number): number =>
  starts.reduce((cursor, start, partition) => Math.min(cursor, store.firstAt(topic, partition, start) ?? end), end)

/** Implements `EventLog.read`: bounds are fixed at the call, records are read when they are requested. */
export const readStore = (
  store: Store,
  topic: Topic,
  options: ReadOptions,
  yieldToLoop: () => Promise<void>,
): AsyncIterable<LogRecord[]> => {
  const ends = store.ends(topic)
  endOf(topic, ends)
  const { from = {}, to, key } = options
  const partition = key === undefined ? options.partition : partitionOf(key, ends.length)
  // Of the partitions that are read: a search takes as long as tens of records.
  const at = (time: number) =>
    ends.map((end, one) =>
      partition === undefined || one === partition ? (store.firstSince(topic, one, time) ?? end) : end,
    )
  const starts = 'time' in from ? at(from.time) : startsOf(topic, from[topic] ?? {}, ends)
  // Where the first record that is held is of the time already, some before it may be.
  requireHeld(store, topic, 'time' in from ? starts.map((start) => start - 1) : starts, partition)
  const bounds =
    to === undefined
      ? ends
      : 'time' in to
        ? at(to.time)
        : ends.map((end, partition) => Math.min(end, to[topic]?.[partition] ?? end))
  const maxRecords = options.maxBatch ?? PAGE_RECORDS
  const maxBytes = Math.min(options.maxBytes ?? PAGE_BYTES, PAGE_BYTES)
  return (async function* () {
    const end = partition === undefined ? Math.max(0, ...bounds) : bounds[partition]!
    let cursor = partition === undefined ? cursorOf(store, topic, starts, end) : starts[partition]!
    while (cursor < end) {
      const page = store.scan(topic, { from: cursor, to: end, partition, key, maxRecords, maxBytes })
      if (page.cut) requireHeld(store, topic, unreadFrom(starts, cursor), partition)
      cursor = page.next
      const records = page.records.filter(
        (record) => record.offset >= starts[record.partition]! && record.offset < bounds[record.partition]!,
      )
      if (records.length > 0) yield records
      await yieldToLoop()
    }
  })()
}
