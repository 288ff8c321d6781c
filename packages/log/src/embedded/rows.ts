/** Reading `log.db`: short statements only, so that no reader ever keeps the writer's log from being recycled. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { PartitionCounts } from '../partition.ts'
import type { LogRecord } from '../port.ts'
import type { Page, Scan, Store } from '../store.ts'
import { storedSchemas } from './file.ts'

type Row = [offset: number, partition: number, timestamp: number, schema: number, key: string, payload: Uint8Array]

/** How many offsets one filtered scan may pass over: bounds the time that it holds the event loop. */
const FILTER_WINDOW = 8192

type Statements = Record<'sweep' | 'ofPartition' | 'ofKey' | 'end' | 'partitionEnd' | 'firstAt' | 'reached' | 'at', StatementSync>

const prepare = (db: DatabaseSync, topic: Topic): Statements => {
  const statement = (sql: string): StatementSync => {
    const prepared = db.prepare(sql)
    prepared.setReturnArrays(true)
    return prepared
  }
  const rows = `SELECT offset, partition, timestamp, schema, key, payload FROM "${topic}" WHERE offset >= ? AND offset < ?`
  return {
    sweep: statement(`${rows} ORDER BY offset LIMIT ?`),
    ofPartition: statement(`${rows} AND partition = ? ORDER BY offset LIMIT ?`),
    ofKey: statement(`${rows} AND partition = ? AND key = ? ORDER BY offset LIMIT ?`),
    end: statement(`SELECT max(offset) FROM "${topic}"`),
    partitionEnd: statement(`SELECT max(offset) FROM "${topic}" WHERE partition = ?`),
    firstAt: statement(`SELECT min(offset) FROM "${topic}" WHERE partition = ? AND offset >= ?`),
    reached: statement(`SELECT offset, reached FROM "${topic}" WHERE partition = ? AND offset >= ? ORDER BY offset LIMIT 1`),
    at: statement(`${rows} AND partition = ?`),
  }
}

export class Rows implements Store {
  readonly #db: DatabaseSync
  readonly #counts: PartitionCounts
  readonly #statements: Record<Topic, Statements>
  readonly #commits: StatementSync
  readonly #version: StatementSync
  #schemas = new Map<number, string>()

  constructor(db: DatabaseSync, counts: PartitionCounts) {
    this.#db = db
    this.#counts = counts
    this.#statements = Object.fromEntries(TOPICS.map((topic) => [topic, prepare(db, topic)])) as Record<Topic, Statements>
    this.#commits = db.prepare('SELECT partition, next FROM commits WHERE "group" = ? AND topic = ?')
    this.#version = db.prepare('PRAGMA data_version')
  }

  /** Changes when another connection, of any process, has committed. */
  version(): number {
    return (this.#version.get() as { data_version: number }).data_version
  }

  scan(topic: Topic, { from, to, partition, key, maxRecords, maxBytes }: Scan): Page {
    const { sweep, ofPartition, ofKey } = this.#statements[topic]
    const until = partition === undefined ? to : Math.min(to, from + FILTER_WINDOW)
    const rows = (partition === undefined ? sweep.iterate(from, until, maxRecords)
      : key === undefined ? ofPartition.iterate(from, until, partition, maxRecords)
        : ofKey.iterate(from, until, partition, key, maxRecords)) as unknown as Iterable<Row>
    const records: LogRecord[] = []
    let bytes = 0
    for (const row of rows) {
      const record = this.#record(topic, row)
      records.push(record)
      bytes += record.payload.length
      if (bytes >= maxBytes) break
    }
    const full = records.length === maxRecords || bytes >= maxBytes
    return { records, next: full ? records.at(-1)!.offset + 1 : until }
  }

  end(topic: Topic): number {
    return afterMax(this.#statements[topic].end.get())
  }

  ends(topic: Topic): number[] {
    const { partitionEnd } = this.#statements[topic]
    return Array.from({ length: this.#counts[topic] }, (_, partition) => afterMax(partitionEnd.get(partition)))
  }

  firstAt(topic: Topic, partition: number, offset: number): number | undefined {
    const [first] = this.#statements[topic].firstAt.get(partition, offset) as unknown as [number | null]
    return first ?? undefined
  }

  firstSince(topic: Topic, partition: number, time: number): number | undefined {
    const { reached } = this.#statements[topic]
    let first: number | undefined
    let low = 0
    let high = this.ends(topic)[partition]! - 1
    while (low <= high) {
      const middle = Math.floor((low + high) / 2)
      const [offset, latest] = reached.get(partition, middle) as unknown as [number, number]
      if (latest >= time) {
        first = offset
        high = middle - 1
      } else {
        low = offset + 1
      }
    }
    return first
  }

  at(topic: Topic, partition: number, offset: number): LogRecord | undefined {
    const row = this.#statements[topic].at.get(offset, offset + 1, partition) as unknown as Row | undefined
    return row && this.#record(topic, row)
  }

  committed(group: string, topic: Topic): number[] {
    const next = new Array<number>(this.#counts[topic]).fill(0)
    for (const row of this.#commits.all(group, topic) as { partition: number; next: number }[]) next[row.partition] = row.next
    return next
  }

  #record(topic: Topic, [offset, partition, timestamp, schema, key, payload]: Row): LogRecord {
    return { topic, key, schema: this.#schemas.get(schema) ?? this.#loadSchema(schema), payload, timestamp, partition, offset }
  }

  #loadSchema(id: number): string {
    this.#schemas = new Map(storedSchemas(this.#db).map((schema) => [schema.id, schema.name]))
    const name = this.#schemas.get(id)
    if (name === undefined) throw new InstarError('data_unreadable', `the log names no schema ${id}`, { schema: id })
    return name
  }
}

const afterMax = (row: unknown): number => {
  const [max] = row as [number | null]
  return max === null ? 0 : max + 1
}
