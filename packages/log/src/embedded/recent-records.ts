/**
 * The records that this process wrote last, in memory until all subscribers have handled them, so that subscribers need
 * not read them from the file. All of them are durable.
 */
import type { Topic } from '@instar/events/flow'
import type { Append, LogRecord, Position } from '../port.ts'
import type { Page, Scan, Store } from '../store.ts'

/** The records of an append call and their positions. */
export type WrittenCall = { records: readonly Append[]; positions: readonly Position[] }

/** The records of a topic by offset, from `first` to `end` (exclusive) without gaps. `bytes`: of their payloads. */
type TopicRecords = { records: Map<number, LogRecord>; first: number; end: number; bytes: number }

/** Maximum payload bytes per topic. A subscriber that is further behind reads the file. */
const MAX_BYTES = 4 << 20

export class RecentRecords {
  readonly #topics = new Map<Topic, TopicRecords>()
  readonly #avroOf: (schema: string) => string | undefined

  /** `avroOf`: the text of a schema newer than this build (`LogRecord.avro`). */
  constructor(avroOf: (schema: string) => string | undefined = () => undefined) {
    this.#avroOf = avroOf
  }

  /**
   * Adds records in the order of the transaction. `followed`: topics with a subscriber. Copies the payloads, whose
   * memory belongs to the callers.
   */
  add({ records, positions }: WrittenCall, followed: ReadonlySet<Topic>): void {
    for (const [i, { topic, key, schema, payload, timestamp }] of records.entries()) {
      const { partition, offset } = positions[i]!
      let topicRecords = this.#topics.get(topic)
      if (!topicRecords || topicRecords.end !== offset)
        this.#topics.set(topic, (topicRecords = { records: new Map(), first: offset, end: offset, bytes: 0 }))
      topicRecords.end = offset + 1
      if (followed.has(topic)) {
        const record: LogRecord = { topic, key, schema, payload: Buffer.from(payload), timestamp, partition, offset }
        const avro = this.#avroOf(schema)
        topicRecords.records.set(offset, avro === undefined ? record : { ...record, avro })
        topicRecords.bytes += payload.length
      } else this.#forgetBelow(topicRecords, topicRecords.end)
      while (topicRecords.bytes > MAX_BYTES) this.#forgetBelow(topicRecords, topicRecords.first + 1)
    }
  }

  /** Drops the records below the offset, which all subscribers have handled. */
  forgetBelow(topic: Topic, offset: number): void {
    const topicRecords = this.#topics.get(topic)
    if (topicRecords) this.#forgetBelow(topicRecords, Math.min(offset, topicRecords.end))
  }

  /** Drops all records: the outcome of a transaction is unknown. */
  clear(): void {
    this.#topics.clear()
  }

  /** The next offset of the topic. `endInFile` is called once, before the first record of this process. */
  end(topic: Topic, endInFile: () => number): number {
    let topicRecords = this.#topics.get(topic)
    if (!topicRecords) {
      const end = endInFile()
      this.#topics.set(topic, (topicRecords = { records: new Map(), first: end, end, bytes: 0 }))
    }
    return topicRecords.end
  }

  /** Undefined if the scan does not start at a record in memory or is restricted to a partition or key. */
  scan(topic: Topic, { from, to, partition, key, maxRecords, maxBytes }: Scan): Page | undefined {
    const recent = this.#topics.get(topic)?.records
    if (partition !== undefined || key !== undefined || !recent?.has(from)) return undefined
    const records: LogRecord[] = []
    let bytes = 0
    let next = from
    for (
      let record = recent.get(next);
      record && next < to && records.length < maxRecords && bytes < maxBytes;
      record = recent.get(next)
    ) {
      records.push(record)
      bytes += record.payload.length
      next += 1
    }
    return { records, next }
  }

  #forgetBelow(topicRecords: TopicRecords, offset: number): void {
    for (; topicRecords.first < offset; topicRecords.first += 1) {
      topicRecords.bytes -= topicRecords.records.get(topicRecords.first)?.payload.length ?? 0
      topicRecords.records.delete(topicRecords.first)
    }
  }
}

/** The store of subscribers in the writing process: records in memory, else those of the file. */
export const withRecentRecords = (rows: Store, recent: RecentRecords): Store => ({
  scan: (topic, scan) => recent.scan(topic, scan) ?? rows.scan(topic, scan),
  end: (topic) => recent.end(topic, () => rows.end(topic)),
  ends: (topic) => rows.ends(topic),
  starts: (topic) => rows.starts(topic),
  firstAt: (topic, partition, offset) => rows.firstAt(topic, partition, offset),
  firstSince: (topic, partition, time) => rows.firstSince(topic, partition, time),
  at: (topic, partition, offset) => rows.at(topic, partition, offset),
  committed: (group, topic) => rows.committed(group, topic),
})
