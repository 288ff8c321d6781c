/**
 * The interface between adapters with one record sequence per topic and the shared reading code (`reading.ts`,
 * `delivery.ts`). All methods are synchronous and bounded. Offsets are unique within a topic.
 */
import type { Topic } from '@instar/events/flow'
import type { LogRecord } from './port.ts'

export type Scan = {
  /** Offsets: `from` inclusive, `to` exclusive. */
  from: number
  to: number
  /** Only records of this partition, and of it only this key. */
  partition?: number
  key?: string
  maxRecords: number
  maxBytes: number
}

export type Page = {
  records: LogRecord[]
  /** The offset at which to continue the scan; `to` at its end. */
  next: number
  /** Records were cut from here: only who asks for none of them (`requireHeld`) may use it. */
  cut?: true
}

export interface Store {
  /** Returns at least one record, of any size, if one is in reach. May return none with `next` below `to`. */
  scan(topic: Topic, scan: Scan): Page
  /** The next offset of the topic. */
  end(topic: Topic): number
  /** One above the last offset of each partition; 0 for an empty one. */
  ends(topic: Topic): number[]
  /** As `EventLog.starts`. A scan from below the offset up to which records were cut returns the last ones that stayed there. */
  starts(topic: Topic): readonly number[]
  /** The first offset of a partition that is at least `offset`, of those that the log holds. */
  firstAt(topic: Topic, partition: number, offset: number): number | undefined
  /**
   * The first offset of a partition up to which a record has a timestamp of at least `time` (milliseconds), of those that the
   * log holds.
   */
  firstSince(topic: Topic, partition: number, time: number): number | undefined
  /** Throws `cutAway` where the record may have been cut. */
  at(topic: Topic, partition: number, offset: number): LogRecord | undefined
  /** The committed offset of each partition for a group; 0 without a commit. */
  committed(group: string, topic: Topic): number[]
}
