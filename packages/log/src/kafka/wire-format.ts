/**
 * The wire format of Confluent's schema registry: a zero byte, the schema id as u32 big-endian, the Avro binary.
 * https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
 */
import type { Topic } from '@instar/events/flow'
import type { LogRecord } from '../port.ts'
import type { KafkaRecord } from './client.ts'
import { SCHEMA_HEADER, schemaHeaderOf } from './schema-header.ts'
import type { WriterSchema } from './schemas.ts'

const HEADER_BYTES = 5

/** A record value without its schema id, which `setSchemaId` sets. Copies the payload. */
export const encodeValue = (payload: Uint8Array): Buffer => {
  const value = Buffer.allocUnsafe(HEADER_BYTES + payload.length)
  value[0] = 0
  value.set(payload, HEADER_BYTES)
  return value
}

export const setSchemaId = (value: Buffer, id: number): void => void value.writeUInt32BE(id, 1)

/**
 * A Kafka record whose schema is not resolved yet. `id`: its schema id; `header`: its header `instar.schema`.
 * `unreadable`: the reason if it is not a record of the log.
 */
export type ParsedRecord =
  | { id: number; header: string | undefined; toLogRecord(schema: WriterSchema): LogRecord }
  | { unreadable: string }

/** Why a record is not one of the log: a program other than Instar wrote it. */
export const NOT_OF_THE_LOG = {
  noSchemaId: 'the value does not start with a schema id',
  noKey: 'the record has no key',
  badKey: 'the key is not UTF-8',
  nulInKey: 'the key contains a NUL character',
  badHeader: `the header ${SCHEMA_HEADER} does not have the format "Name.vN fingerprint"`,
} as const

/** The latest time of a `Date`. Records of other programs have any time of 64 bits, and -1 for none. */
const MAX_TIMESTAMP = 8_640_000_000_000_000

/** A record's time as one that every log can store. */
export const timeOf = (timestamp: string): number => Math.min(Math.max(Number(timestamp), 0), MAX_TIMESTAMP)

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export const parseRecord = (topic: Topic, partition: number, record: KafkaRecord): ParsedRecord => {
  const { key, value, timestamp, offset } = record
  if (value === null || value.length < HEADER_BYTES || value[0] !== 0) return { unreadable: NOT_OF_THE_LOG.noSchemaId }
  if (key === null || key.length === 0) return { unreadable: NOT_OF_THE_LOG.noKey }
  let text: string
  try {
    text = utf8.decode(key)
  } catch {
    return { unreadable: NOT_OF_THE_LOG.badKey }
  }
  if (text.includes('\0')) return { unreadable: NOT_OF_THE_LOG.nulInKey }
  // A copy, so that a record does not keep the large buffer of its fetch in memory.
  const payload = Buffer.from(value.subarray(HEADER_BYTES))
  return {
    id: value.readUInt32BE(1),
    header: schemaHeaderOf(record),
    toLogRecord: (schema) => ({
      topic,
      key: text,
      ...schema,
      payload,
      timestamp: timeOf(timestamp),
      partition,
      offset: Number(offset),
    }),
  }
}
