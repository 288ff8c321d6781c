/** Records in arrays; the offset is the index in the topic. Several logs can be opened on it one after another. */
import { TOPICS, type Topic } from '@instar/events/flow'
import type { PartitionCounts } from '../partition.ts'
import type { Append, LogRecord, Position } from '../port.ts'
import type { Page, Scan, Store } from '../store.ts'

export class MemoryStore implements Store {
  readonly counts: PartitionCounts
  readonly #topics = Object.fromEntries(TOPICS.map((topic) => [topic, []])) as unknown as Record<Topic, LogRecord[]>
  readonly #commits = new Map<string, number[]>()

  constructor(counts: PartitionCounts) {
    this.counts = counts
  }

  add(record: Append, partition: number): Position {
    const records = this.#topics[record.topic]
    const { topic, key, schema, payload, timestamp } = record
    const offset = records.length
    records.push({ topic, key, schema, payload: new Uint8Array(payload), timestamp, partition, offset })
    return { topic, partition, offset }
  }

  setCommitted(group: string, { topic, partition, offset }: Position): void {
    const next = this.committed(group, topic)
    next[partition] = offset
    this.#commits.set(`${group}/${topic}`, next)
  }

  scan(topic: Topic, { from, to, partition, key, maxRecords, maxBytes }: Scan): Page {
    const records: LogRecord[] = []
    const end = Math.min(to, this.end(topic))
    let bytes = 0
    let next = from
    while (next < end && records.length < maxRecords && bytes < maxBytes) {
      const record = this.#topics[topic][next++]!
      if ((partition !== undefined && record.partition !== partition) || (key !== undefined && record.key !== key))
        continue
      records.push(record)
      bytes += record.payload.length
    }
    return { records, next: next < end ? next : to }
  }

  end(topic: Topic): number {
    return this.#topics[topic].length
  }

  ends(topic: Topic): number[] {
    return Array.from(
      { length: this.counts[topic] },
      (_, partition) => this.#topics[topic].findLastIndex((record) => record.partition === partition) + 1,
    )
  }

  firstAt(topic: Topic, partition: number, offset: number): number | undefined {
    return this.#first(topic, (record) => record.partition === partition && record.offset >= offset)
  }

  firstSince(topic: Topic, partition: number, time: number): number | undefined {
    return this.#first(topic, (record) => record.partition === partition && record.timestamp >= time)
  }

  at(topic: Topic, partition: number, offset: number): LogRecord | undefined {
    const record = this.#topics[topic][offset]
    return record?.partition === partition ? record : undefined
  }

  committed(group: string, topic: Topic): number[] {
    return [...(this.#commits.get(`${group}/${topic}`) ?? new Array<number>(this.counts[topic]).fill(0))]
  }

  #first(topic: Topic, wanted: (record: LogRecord) => boolean): number | undefined {
    const offset = this.#topics[topic].findIndex(wanted)
    return offset < 0 ? undefined : offset
  }
}
