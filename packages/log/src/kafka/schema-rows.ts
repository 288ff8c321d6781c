/**
 * The topic `schemas`: which number stands for which schema on this log, with the text of each. One partition, one row
 * a record, in JSON; the first row of a number holds. `setup` writes it, everybody reads it. A registry is a copy of
 * it that others can ask, and can be made again from it.
 */
import type { KafkaConnection } from './client.ts'
import { byLeader, EARLIEST, fetchFrom, LATEST, offsetsAt } from './fetch.ts'
import type { Producer } from './producer.ts'
import { fingerprintOf } from './schema-names.ts'

/** `avro`: the schema's JSON. A schema may have several numbers, from registries that followed each other. */
export type SchemaRow = { id: number; schema: string; avro: string }

const LIMITS = { maxBytes: 4 << 20, maxBytesPerPartition: 4 << 20, maxWaitTime: 100 }

/** In the order in which they were written; those of numbers that have one already are left out. */
export const readRows = async (connection: KafkaConnection, topic: string): Promise<SchemaRow[]> =>
  connection.use(async (cluster) => {
    const place = { topic, partition: 0 }
    const [[first], [end]] = await Promise.all([
      offsetsAt(cluster, [place], EARLIEST),
      offsetsAt(cluster, [place], LATEST),
    ])
    const rows = new Map<number, SchemaRow>()
    for (let offset = first!.offset; offset < end!.offset;) {
      const [nodeId] = byLeader(cluster, [place]).keys()
      const [batch] = await fetchFrom(cluster, nodeId!, [{ ...place, offset }], LIMITS)
      for (const { value } of batch!.records) {
        const row = rowOf(value)
        if (row && !rows.has(row.id)) rows.set(row.id, row)
      }
      offset = batch!.next
    }
    return [...rows.values()]
  })

/** Durable when it resolves. */
export const writeRows = async (
  producer: Producer,
  topic: string,
  rows: readonly SchemaRow[],
  now: number,
): Promise<void> => {
  await producer.send(
    rows.map((row) => ({
      topic,
      partition: 0,
      message: {
        key: Buffer.from(row.schema, 'utf8'),
        value: Buffer.from(JSON.stringify(row), 'utf8'),
        timestamp: now,
      },
    })),
  )
}

/** Null for what is no row. */
const rowOf = (value: Buffer | null): SchemaRow | null => {
  try {
    const { id, schema, avro } = JSON.parse(String(value)) as Partial<SchemaRow>
    if (!Number.isSafeInteger(id) || typeof schema !== 'string' || typeof avro !== 'string') return null
    JSON.parse(avro)
    return { id: id!, schema, avro }
  } catch (cause) {
    if (cause instanceof SyntaxError) return null
    throw cause
  }
}

type KnownSchema = SchemaRow & { fingerprint: string }

/** The rows as readers ask them. */
export class SchemaTable {
  readonly #ids = new Map<number, KnownSchema>()
  readonly #byName = new Map<string, KnownSchema>()

  constructor(rows: readonly SchemaRow[] = []) {
    this.add(rows)
  }

  add(rows: readonly SchemaRow[]): void {
    for (const row of rows) {
      if (this.#ids.has(row.id)) continue
      const known = { ...row, fingerprint: fingerprintOf(row.avro) }
      this.#ids.set(row.id, known)
      this.#byName.set(row.schema, known)
    }
  }

  get(id: number): KnownSchema | undefined {
    return this.#ids.get(id)
  }

  /** The latest row of the name. */
  named(schema: string): KnownSchema | undefined {
    return this.#byName.get(schema)
  }

  all(): KnownSchema[] {
    return [...this.#ids.values()]
  }
}
