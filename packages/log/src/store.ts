/**
 * What an adapter that keeps its records in one ordered place per topic gives to the shared reading code
 * (`reading.ts`, `delivery.ts`). All calls are synchronous and bounded; an offset is unique in its topic.
 */
import type { Topic } from '@instar/events/flow'
import type { LogRecord } from './port.ts'

export type Scan = {
  /** Offsets from (inclusive) and to (exclusive). */
  from: number
  to: number
  /** Only this partition, and of it only this key. */
  partition?: number
  key?: string
  maxRecords: number
  maxBytes: number
}

export type Page = {
  records: LogRecord[]
  /** Where to go on: everything of the scan below it is in `records`. It is `to` when the scan is through. */
  next: number
}

export interface Store {
  /** At least one record if there is one in reach, whatever its size. May return none and a `next` below `to`. */
  scan(topic: Topic, scan: Scan): Page
  /** Above the offset of every record of the topic. */
  end(topic: Topic): number
  /** The same for each partition; 0 for one that holds nothing. */
  ends(topic: Topic): number[]
  /** The first offset at or after `offset` in a partition. */
  firstAt(topic: Topic, partition: number, offset: number): number | undefined
  /** The first offset whose record, or an earlier one, has a timestamp of at least `time`. */
  firstSince(topic: Topic, partition: number, time: number): number | undefined
  at(topic: Topic, partition: number, offset: number): LogRecord | undefined
  /** What a group committed: the next offset to read of each partition, 0 where it never did. */
  committed(group: string, topic: Topic): number[]
}
