/** Bounded reads over a `Store`: where they begin and end, and the pages between. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { partitionOf } from './partition.ts'
import type { LogRecord, Offsets, ReadOptions } from './port.ts'
import type { Store } from './store.ts'

/** A page holds no more than this unless its first record alone does. */
export const PAGE_BYTES = 1 << 20
export const PAGE_RECORDS = 512

/** Positions as one array per partition; refuses what cannot be a position of this log. */
export const startsOf = (store: Store, topic: Topic, from: Offsets, ends: readonly number[]): number[] => {
  const given = from[topic] ?? {}
  for (const [partition, offset] of Object.entries(given)) {
    const end = ends[Number(partition)]
    if (end === undefined || !Number.isSafeInteger(offset) || offset < 0 || offset > end) {
      throw new InstarError(
        'position_unknown',
        `${topic} ${partition}@${offset} is no position of this log, whose end there is ${end ?? 'missing'}`,
        { topic, partition: Number(partition), offset, end: end ?? null },
      )
    }
  }
  return ends.map((_, partition) => given[partition] ?? 0)
}

/** The topic-wide offset below which nothing of `starts` is left to read. */
export const cursorOf = (store: Store, topic: Topic, starts: readonly number[], end: number): number =>
  starts.reduce((cursor, start, partition) => Math.min(cursor, store.firstAt(topic, partition, start) ?? end), end)

/** As `EventLog.read`: the limits are taken when it is called, the records when they are asked for. */
export const readStore = (
  store: Store,
  topic: Topic,
  options: ReadOptions,
  breathe: () => Promise<void>,
): AsyncIterable<LogRecord[]> => {
  const ends = store.ends(topic)
  const at = (time: number) => ends.map((end, partition) => store.firstSince(topic, partition, time) ?? end)
  const { from = {}, to, key } = options
  const starts = 'time' in from ? at(from.time) : startsOf(store, topic, from, ends)
  const limits =
    to === undefined
      ? ends
      : 'time' in to
        ? at(to.time)
        : ends.map((end, partition) => Math.min(end, to[topic]?.[partition] ?? end))
  const partition = key === undefined ? options.partition : partitionOf(key, ends.length)
  const maxRecords = options.maxBatch ?? PAGE_RECORDS
  const maxBytes = Math.min(options.maxBytes ?? PAGE_BYTES, PAGE_BYTES)
  return (async function* () {
    const end = partition === undefined ? Math.max(0, ...limits) : limits[partition]!
    let cursor = partition === undefined ? cursorOf(store, topic, starts, end) : starts[partition]!
    while (cursor < end) {
      const page = store.scan(topic, { from: cursor, to: end, partition, key, maxRecords, maxBytes })
      cursor = page.next
      const records = page.records.filter(
        (record) => record.offset >= starts[record.partition]! && record.offset < limits[record.partition]!,
      )
      if (records.length > 0) yield records
      await breathe()
    }
  })()
}
