/** Records in arrays; the offset is the index in the topic, undefined where it was cut. Several logs can be opened on it one after another. */
import { TOPICS, type Topic } from '@instar/events/flow'
import { cutAway } from '../cuts.ts'
import type { PartitionCounts } from '../partition.ts'
import type { Append, LogRecord, Position } from '../port.ts'
import type { Page, Scan, Store } from '../store.ts'

export class MemoryStore implements Store {
  readonly counts: PartitionCounts
  readonly #topics = Object.fromEntries(TOPICS.map((topic) => [topic, []])) as unknown as Record<
    Topic,
    (LogRecord | undefined)[]
  >
  readonly #commits = new Map<string, number[]>()
  /** `until`: all records from there on are held, and before it the one at each start. */
  readonly #cuts = new Map<Topic, { until: number; starts: number[] }>()

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
      const record = this.#topics[topic][next++]
      if (
        !record ||
        (partition !== undefined && record.partition !== partition) ||
        (key !== undefined && record.key !== key)
      )
        continue
      records.push(record)
      bytes += record.payload.length
    }
    const cut = from < (this.#cuts.get(topic)?.until ?? 0)
    return { records, next: next < end ? next : to, ...(cut ? { cut: true } : {}) }
  }

  end(topic: Topic): number {
    return this.#topics[topic].length
  }

  ends(topic: Topic): number[] {
    return Array.from(
      { length: this.counts[topic] },
      (_, partition) => this.#topics[topic].findLastIndex((record) => record?.partition === partition) + 1,
    )
  }

  starts(topic: Topic): readonly number[] {
    return this.#cuts.get(topic)?.starts ?? new Array<number>(this.counts[topic]).fill(0)
  }

  /** Of each partition the last record before the cut stays. */
  cut(topic: Topic, starts: Readonly<Record<number, number>>): void {
    const records = this.#topics[topic]
    // The record that an earlier cut left of a partition lies before what can be cut now.
    const startOf = (partition: number): number => Math.max(starts[partition] ?? 0, this.starts(topic)[partition]!)
    const until = this.ends(topic).reduce(
      (cut, _, partition) => Math.min(cut, this.firstAt(topic, partition, startOf(partition) + 1) ?? cut),
      records.length,
    )
    if (until <= (this.#cuts.get(topic)?.until ?? 0)) return
    const last = this.ends(topic).map((_, partition) =>
      records.findLastIndex((record, offset) => offset < until && record?.partition === partition),
    )
    for (let offset = 0; offset < until; offset += 1) if (!last.includes(offset)) records[offset] = undefined
    this.#cuts.set(topic, { until, starts: last.map((offset) => Math.max(0, offset)) })
  }

  firstAt(topic: Topic, partition: number, offset: number): number | undefined {
    return this.#first(topic, (record) => record.partition === partition && record.offset >= offset)
  }

  firstSince(topic: Topic, partition: number, time: number): number | undefined {
    return this.#first(topic, (record) => record.partition === partition && record.timestamp >= time)
  }

  at(topic: Topic, partition: number, offset: number): LogRecord | undefined {
    const record = this.#topics[topic][offset]
    if (!record && offset >= 0 && offset < this.end(topic))
      throw cutAway(topic, partition, this.starts(topic)[partition] ?? 0)
    return record?.partition === partition ? record : undefined
  }

  committed(group: string, topic: Topic): number[] {
    return [...(this.#commits.get(`${group}/${topic}`) ?? new Array<number>(this.counts[topic]).fill(0))]
  }

  #first(topic: Topic, wanted: (record: LogRecord) => boolean): number | undefined {
    const offset = this.#topics[topic].findIndex((record) => record !== undefined && wanted(record))
    return offset < 0 ? undefined : offset
  }
}
