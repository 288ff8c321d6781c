/** The store of `log.db`. Statements are short, so that no reader delays the checkpoint of the write-ahead log. */
import { isLater } from '@instar/events/codec'
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { CUT_TOPICS, cutAway } from '../cuts.ts'
import type { PartitionCounts } from '../partition.ts'
import type { LogRecord } from '../port.ts'
import { PAGE_BYTES } from '../reading.ts'
import type { Page, Scan, Store } from '../store.ts'
import { BLOCK, BlockReader, isPartition, recordsMissing, type TopicCut } from './blocks.ts'
import { cutOfTopic, missingOrCut, startsOf } from './cut.ts'
import { checksumOf, hasChecksums, reachedOf, type Row } from './checksum.ts'
import { schemaLost, storedSchemas } from './schemas.ts'

type RecordRow = [...row: Row, checksum: number | null]

/** Maximum number of offsets that a scan of a partition passes over, to limit how long it blocks the event loop. */
const FILTER_WINDOW = 8192
const MIN_WINDOW = 64

type Statements = Record<'sweep' | 'among' | 'amongOfKey' | 'offsetsAmong' | 'reached' | 'at', StatementSync>

const prepare = (db: DatabaseSync, topic: Topic): Statements => {
  const checksum = hasChecksums(db, topic) ? 'checksum' : 'NULL'
  const select = `SELECT offset, partition, timestamp, schema, key, payload, ${checksum} FROM "${topic}"`
  const statement = (sql: string): StatementSync => {
    const prepared = db.prepare(sql)
    prepared.setReturnArrays(true)
    return prepared
  }
  return {
    sweep: statement(`${select} WHERE offset >= ? AND offset < ? ORDER BY offset LIMIT ?`),
    among: statement(`${select} WHERE offset IN (SELECT value FROM json_each(?)) ORDER BY offset LIMIT ?`),
    amongOfKey: statement(
      `${select} WHERE offset IN (SELECT value FROM json_each(?)) AND key = ? ORDER BY offset LIMIT ?`,
    ),
    offsetsAmong: statement(`SELECT offset FROM "${topic}" WHERE offset IN (SELECT value FROM json_each(?))`),
    reached: statement(`SELECT reached, timestamp FROM "${topic}" WHERE offset = ?`),
    at: statement(`${select} WHERE offset = ?`),
  }
}

export class SqliteStore implements Store {
  readonly #db: DatabaseSync
  readonly #counts: PartitionCounts
  readonly #statements: Record<Topic, Statements>
  readonly #blocks: Record<Topic, BlockReader>
  readonly #cuts: Record<Topic, TopicCut>
  readonly #commits: StatementSync
  readonly #version: StatementSync
  readonly #onDamaged: (record: LogRecord) => void
  #schemas = new Map<number, { name: string; avro?: string }>()

  /** `onDamaged` is called each time that a damaged record is read. */
  constructor(db: DatabaseSync, counts: PartitionCounts, onDamaged: (record: LogRecord) => void = () => undefined) {
    this.#db = db
    this.#onDamaged = onDamaged
    this.#counts = counts
    this.#statements = Object.fromEntries(TOPICS.map((topic) => [topic, prepare(db, topic)])) as Record<
      Topic,
      Statements
    >
    this.#cuts = Object.fromEntries(TOPICS.map((topic) => [topic, cutOfTopic(db, topic, counts[topic])])) as Record<
      Topic,
      TopicCut
    >
    this.#blocks = Object.fromEntries(
      TOPICS.map((topic) => [topic, new BlockReader(db, topic, counts[topic], this.#cuts[topic])]),
    ) as Record<Topic, BlockReader>
    this.#commits = db.prepare('SELECT partition, next FROM commits WHERE "group" = ? AND topic = ?')
    this.#version = db.prepare('PRAGMA data_version')
  }

  /** Changes when another connection of any process has committed. */
  version(): number {
    return (this.#version.get() as { data_version: number }).data_version
  }

  /** Throws `log_truncated` for a missing record, `cutAway` for one that was cut since the store was opened. */
  scan(topic: Topic, scan: Scan): Page {
    if (scan.from < this.#cuts[topic].until) return this.#scanKept(topic, scan)
    try {
      return this.#scan(topic, scan)
    } catch (error) {
      if (!(error instanceof InstarError)) throw error
      throw missingOrCut(topic, this.#readCut(topic), error, scan.from, scan.partition)
    }
  }

  /** The last records before the cut, one of each partition. */
  #scanKept(topic: Topic, { from, to, partition, key, maxRecords, maxBytes }: Scan): Page {
    const { until, last } = this.#cuts[topic]
    const records: LogRecord[] = []
    let bytes = 0
    for (const offset of last.filter((one) => one >= from && one < to).sort((a, b) => a - b)) {
      const row = this.#statements[topic].at.get(offset) as unknown as RecordRow | undefined
      if (!row) throw recordsMissing(topic, offset, offset + 1)
      const record = this.#record(topic, row)
      if ((partition !== undefined && record.partition !== partition) || (key !== undefined && record.key !== key))
        continue
      records.push(record)
      bytes += record.payload.length
      if (records.length >= maxRecords || bytes >= maxBytes) return { records, next: offset + 1, cut: true }
    }
    return { records, next: Math.min(to, until), cut: true }
  }

  #scan(topic: Topic, { from, to, partition, key, maxRecords, maxBytes }: Scan): Page {
    const { sweep, among, amongOfKey } = this.#statements[topic]
    // Who reads few bytes at a time looks for records of a key that are near, such as the chunks of a blob.
    const share = key === undefined ? 1 : Math.min(1, maxBytes / PAGE_BYTES)
    const window = Math.max(MIN_WINDOW, Math.ceil(FILTER_WINDOW * share))
    const until = partition === undefined ? to : Math.min(to, from + window)
    const offsets =
      partition === undefined
        ? null
        : this.#blocks[topic].within(partition, from, until, key === undefined ? maxRecords : Infinity)
    if (offsets !== null && key !== undefined) this.#requireAll(topic, offsets)
    const rows = (offsets === null
      ? sweep.iterate(from, until, maxRecords)
      : key === undefined
        ? among.iterate(JSON.stringify(offsets), maxRecords)
        : amongOfKey.iterate(JSON.stringify(offsets), key, maxRecords)) as unknown as Iterable<RecordRow>
    const records: LogRecord[] = []
    let bytes = 0
    /** The offset that the next row of a scan without a key must have; `until` after the last. */
    const expected = (): number => (offsets === null ? from + records.length : (offsets[records.length] ?? until))
    for (const row of rows) {
      const record = this.#record(topic, row)
      if (key === undefined && record.offset !== expected()) throw recordsMissing(topic, expected(), record.offset)
      records.push(record)
      bytes += record.payload.length
      if (bytes >= maxBytes) break
    }
    const full = records.length === maxRecords || bytes >= maxBytes
    if (!full && key === undefined && expected() < until)
      throw recordsMissing(topic, expected(), offsets === null ? until : expected() + 1)
    return { records, next: full ? records.at(-1)!.offset + 1 : until }
  }

  /**
   * A scan for a key does not see whether a row is there: a number that changed in an inner page of the table sends a search for a
   * row to another page.
   */
  #requireAll(topic: Topic, offsets: readonly number[]): void {
    const found = this.#statements[topic].offsetsAmong.all(JSON.stringify(offsets)) as unknown as [number][]
    if (found.length === offsets.length) return
    const there = new Set(found.map(([offset]) => offset))
    const missing = offsets.find((offset) => !there.has(offset))!
    throw recordsMissing(topic, missing, missing + 1)
  }

  end(topic: Topic): number {
    return this.#blocks[topic].end()
  }

  ends(topic: Topic): number[] {
    return [...this.#blocks[topic].ends()]
  }

  starts(topic: Topic): readonly number[] {
    return startsOf(CUT_TOPICS.some((one) => one === topic) ? this.#readCut(topic) : this.#cuts[topic])
  }

  /** As of now: the writer may have cut since the last call. */
  #readCut(topic: Topic): TopicCut {
    const cut = cutOfTopic(this.#db, topic, this.#counts[topic])
    if (cut.until === this.#cuts[topic].until) return cut
    this.#cuts[topic] = cut
    this.#blocks[topic].setCut(cut)
    return cut
  }

  /** The offset before which a topic may be cut, so that of each partition all records from its start on stay. */
  cutEnd(topic: Topic, starts: Readonly<Record<number, number>>): { from: number; until: number } {
    const { until: from, last } = this.#readCut(topic)
    // The record that an earlier cut left of a partition lies before what can be cut now.
    const startOf = (partition: number): number => Math.max(starts[partition] ?? 0, last[partition]!)
    const until = this.ends(topic).reduce(
      (cut, _, partition) => Math.min(cut, this.firstAt(topic, partition, startOf(partition) + 1) ?? cut),
      this.end(topic),
    )
    return { from, until: Math.floor(until / BLOCK) * BLOCK }
  }

  firstAt(topic: Topic, partition: number, offset: number): number | undefined {
    return this.#blocks[topic].firstAt(partition, offset)
  }

  firstSince(topic: Topic, partition: number, time: number): number | undefined {
    const { reached } = this.#statements[topic]
    let first: number | undefined
    let low = 0
    let high = this.ends(topic)[partition]! - 1
    while (low <= high) {
      const middle = Math.floor((low + high) / 2)
      const offset = this.firstAt(topic, partition, middle)!
      const row = reached.get(offset) as unknown as unknown[] | undefined
      if (!row) throw recordsMissing(topic, offset, offset + 1)
      if (reachedOf(row) >= time) {
        first = offset
        high = middle - 1
      } else {
        low = offset + 1
      }
    }
    return first
  }

  at(topic: Topic, partition: number, offset: number): LogRecord | undefined {
    const row = this.#statements[topic].at.get(offset) as unknown as RecordRow | undefined
    if (!row && offset >= 0) {
      const cut = this.#readCut(topic)
      if (offset < cut.until) throw cutAway(topic, partition, startsOf(cut)[partition] ?? 0)
    }
    const record = row && this.#record(topic, row)
    return record?.partition === partition ? record : undefined
  }

  committed(group: string, topic: Topic): number[] {
    const next = new Array<number>(this.#counts[topic]).fill(0)
    for (const row of this.#commits.all(group, topic) as { partition: number; next: number }[])
      if (isPartition(row.partition, next.length)) next[row.partition] = row.next
    return next
  }

  #record(topic: Topic, row: RecordRow): LogRecord {
    const [offset, partition, timestamp, schema, key, payload, checksum] = row
    const isDamaged =
      !(payload instanceof Uint8Array) ||
      typeof key !== 'string' ||
      typeof timestamp !== 'number' ||
      !isPartition(partition, this.#counts[topic]) ||
      (checksum !== null && checksum !== checksumOf(topic, [offset, partition, timestamp, schema, key, payload]))
    const { name, avro } = this.#schemas.get(schema) ?? this.#loadSchema(schema, isDamaged)
    const record: LogRecord = { topic, key, schema: name, payload, timestamp, partition, offset }
    if (avro !== undefined) record.avro = avro
    if (!isDamaged) return record
    const damaged = this.#damaged(record)
    this.#onDamaged(damaged)
    return damaged
  }

  /**
   * The record of a row that changed on the disk. Its partition is that of the index, by which positions are counted:
   * by another, readers would pass over the record. A value of another type than its column's (a bit of the row's header
   * flipped) gets the type.
   */
  #damaged(record: LogRecord): LogRecord {
    const { topic, offset } = record
    const { key, timestamp, payload } = record as { key: unknown; timestamp: unknown; payload: unknown }
    return {
      ...record,
      key: String(key),
      timestamp: typeof timestamp === 'number' ? timestamp : 0,
      payload: payload instanceof Uint8Array ? payload : Buffer.from(String(payload)),
      partition: this.#blocks[topic].partitionAt(offset),
      damaged: true,
    }
  }

  /** A damaged row may have any id: its record is unreadable, not the log. */
  #loadSchema(id: number, isDamaged: boolean): { name: string; avro?: string } {
    this.#schemas = new Map(
      storedSchemas(this.#db).map(({ id: schemaId, name, avro }) => [
        schemaId,
        isLater(name) ? { name, avro } : { name },
      ]),
    )
    const schema = this.#schemas.get(id)
    if (schema === undefined && isDamaged) return { name: `schema ${id}` }
    if (schema === undefined) throw schemaLost(this.#db, id)
    return schema
  }
}
