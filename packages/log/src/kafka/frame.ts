/** The registry's wire format: a zero, the schema's id in four bytes, the Avro binary. */
import type { Topic } from '@instar/events/flow'
import type { LogRecord } from '../port.ts'
import type { Fetchable } from './client.ts'
import { headerOf } from './schema-header.ts'
import type { WriterSchema } from './schemas.ts'

const HEADER_BYTES = 5

/** The value of a Kafka record, its id still to be set. The caller's bytes are copied. */
export const frame = (payload: Uint8Array): Buffer => {
  const value = Buffer.allocUnsafe(HEADER_BYTES + payload.length)
  value[0] = 0
  value.set(payload, HEADER_BYTES)
  return value
}

export const setId = (value: Buffer, id: number): void => void value.writeUInt32BE(id, 1)

/**
 * Converts a Kafka record, without its schema, or gives the reason why it is none of ours. `header`: the value of
 * `instar.schema`.
 */
export type Unframed =
  | { id: number; header: string | undefined; meaning(meant: WriterSchema): LogRecord }
  | { bad: string }

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export const unframe = (topic: Topic, partition: number, record: Fetchable): Unframed => {
  const { key, value, timestamp, offset } = record
  if (value === null || value.length < HEADER_BYTES || value[0] !== 0)
    return { bad: 'its value does not begin with a schema id' }
  if (key === null || key.length === 0) return { bad: 'it has no key' }
  let text: string
  try {
    text = utf8.decode(key)
  } catch {
    return { bad: 'its key is not UTF-8' }
  }
  // A copy: the fetched bytes are one large buffer, which a small record must not keep.
  const payload = Buffer.from(value.subarray(HEADER_BYTES))
  return {
    id: value.readUInt32BE(1),
    header: headerOf(record),
    meaning: (meant) => ({
      topic,
      key: text,
      ...meant,
      payload,
      timestamp: Number(timestamp),
      partition,
      offset: Number(offset),
    }),
  }
}
