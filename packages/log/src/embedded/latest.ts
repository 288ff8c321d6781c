/**
 * What was appended last, until those who follow the log have had it: they need not read back from the file what this
 * process has just written to it. Everything held is durable; what is not held is in the file.
 */
import type { Topic } from '@instar/events/flow'
import type { Append, LogRecord, Position } from '../port.ts'
import type { Page, Scan, Store } from '../store.ts'

/** The records of one call, and where they are now. */
export type Written = { records: readonly Append[]; positions: readonly Position[] }

/** Of one topic by offset, without a gap. */
type Held = { records: Map<number, LogRecord>; first: number; end: number; bytes: number }

/** Payload bytes that are held for those who lag behind; then they read the file. */
const MOST_BYTES = 4 << 20

export class Latest {
  readonly #topics = new Map<Topic, Held>()
  readonly #avroOf: (schema: string) => string | undefined

  /** `avroOf`: the text of a schema that this build does not know (`LogRecord.avro`). */
  constructor(avroOf: (schema: string) => string | undefined = () => undefined) {
    this.#avroOf = avroOf
  }

  /**
   * Adds records in the order of the transaction. `followed`: topics with a subscriber. Copies the payloads, whose
   * memory belongs to the callers.
   */
  add({ records, positions }: Written, followed: ReadonlySet<Topic>): void {
    for (const [i, { topic, key, schema, payload, timestamp }] of records.entries()) {
      const { partition, offset } = positions[i]!
      let held = this.#topics.get(topic)
      if (!held || held.end !== offset)
        this.#topics.set(topic, (held = { records: new Map(), first: offset, end: offset, bytes: 0 }))
      held.end = offset + 1
      if (followed.has(topic)) {
        const record: LogRecord = { topic, key, schema, payload: Buffer.from(payload), timestamp, partition, offset }
        const avro = this.#avroOf(schema)
        held.records.set(offset, avro === undefined ? record : { ...record, avro })
        held.bytes += payload.length
      } else this.#forgetBelow(held, held.end)
      while (held.bytes > MOST_BYTES) this.#forgetBelow(held, held.first + 1)
    }
  }

  /** Every subscriber has handled the records below it. */
  forgetBelow(topic: Topic, offset: number): void {
    const held = this.#topics.get(topic)
    if (held) this.#forgetBelow(held, Math.min(offset, held.end))
  }

  /** The outcome of a transaction is unknown: read from the file. */
  clear(): void {
    this.#topics.clear()
  }

  /** The next offset of the topic. `ofFile` reads it once, for records written before this process wrote any. */
  end(topic: Topic, ofFile: () => number): number {
    let held = this.#topics.get(topic)
    if (!held) {
      const end = ofFile()
      this.#topics.set(topic, (held = { records: new Map(), first: end, end, bytes: 0 }))
    }
    return held.end
  }

  /** Undefined for what is not held. */
  scan(topic: Topic, { from, to, partition, key, maxRecords, maxBytes }: Scan): Page | undefined {
    const held = this.#topics.get(topic)?.records
    if (partition !== undefined || key !== undefined || !held?.has(from)) return undefined
    const records: LogRecord[] = []
    let bytes = 0
    let next = from
    for (
      let record = held.get(next);
      record && next < to && records.length < maxRecords && bytes < maxBytes;
      record = held.get(next)
    ) {
      records.push(record)
      bytes += record.payload.length
      next += 1
    }
    return { records, next }
  }

  #forgetBelow(held: Held, offset: number): void {
    for (; held.first < offset; held.first += 1) {
      held.bytes -= held.records.get(held.first)?.payload.length ?? 0
      held.records.delete(held.first)
    }
  }
}

/** The store of subscribers in the writing process: records in memory first, else from the file. */
export const withLatest = (rows: Store, latest: Latest): Store => ({
  scan: (topic, scan) => latest.scan(topic, scan) ?? rows.scan(topic, scan),
  end: (topic) => latest.end(topic, () => rows.end(topic)),
  ends: (topic) => rows.ends(topic),
  firstAt: (topic, partition, offset) => rows.firstAt(topic, partition, offset),
  firstSince: (topic, partition, time) => rows.firstSince(topic, partition, time),
  at: (topic, partition, offset) => rows.at(topic, partition, offset),
  committed: (group, topic) => rows.committed(group, topic),
})
