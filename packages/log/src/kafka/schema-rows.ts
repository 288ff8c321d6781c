/**
 * The topic `schemas`: the schema ids of the log with the text of each schema. One partition; each record is a row in
 * JSON; the first row of an id is valid. `setup` writes it, all processes read it, and a lost registry can be restored
 * from it.
 */
import type { KafkaConnection } from './client.ts'
import { fetchToEnd, type Use } from './fetch.ts'
import type { Producer } from './producer.ts'
import { fingerprintOf } from './schema-names.ts'

/** `avro`: the schema's JSON. A schema may have several ids, of successive registries. */
export type SchemaRow = { id: number; schema: string; avro: string }

const LIMITS = { maxBytes: 4 << 20, maxBytesPerPartition: 4 << 20, maxWaitTime: 100 }

/** All rows in the order of their writing, without repeated ids. */
export const readRows = async (connection: KafkaConnection, topic: string): Promise<SchemaRow[]> => {
  const rows = new Map<number, SchemaRow>()
  const use: Use = (work) => connection.use(work)
  for await (const { records } of fetchToEnd(use, { topic, partition: 0 }, 0, LIMITS)) {
    for (const { value } of records) {
      const row = rowOf(value)
      if (row && !rows.has(row.id)) rows.set(row.id, row)
    }
  }
  return [...rows.values()]
}

/** Appends rows; durable when it resolves. `now`: milliseconds since 1970. */
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

/** Null if the value is not a row. */
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

type FingerprintedRow = SchemaRow & { fingerprint: string }

/** The rows by id and by name. */
export class SchemaTable {
  readonly #ids = new Map<number, FingerprintedRow>()
  readonly #byName = new Map<string, FingerprintedRow>()

  constructor(rows: readonly SchemaRow[] = []) {
    this.add(rows)
  }

  add(rows: readonly SchemaRow[]): void {
    for (const row of rows) {
      if (this.#ids.has(row.id)) continue
      const schemaRow = { ...row, fingerprint: fingerprintOf(row.avro) }
      this.#ids.set(row.id, schemaRow)
      this.#byName.set(row.schema, schemaRow)
    }
  }

  get(id: number): FingerprintedRow | undefined {
    return this.#ids.get(id)
  }

  /** The latest row of the name. */
  named(schema: string): FingerprintedRow | undefined {
    return this.#byName.get(schema)
  }

  all(): FingerprintedRow[] {
    return [...this.#ids.values()]
  }
}
