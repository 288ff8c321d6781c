/** The copy of a record in the topic of dead letters: its key and value, and what they do not say in headers. */
import { createHash } from 'node:crypto'
import type { Topic } from '@instar/events/flow'
import type { KafkaRecord } from './client.ts'
import { headersOf, type KafkaMessage } from './record-batch.ts'
import { schemaHeaderOf, SCHEMA_HEADER } from './schema-header.ts'
import { timeOf } from './wire-format.ts'

/** Maximum bytes of key and value of a cut copy: below the smallest usual limit of a topic (1 MiB). */
export const CUT_BYTES = 64 << 10
/** Of a cut key, and characters of a header that another program wrote and of a reason. */
const MAX_CUT_KEY_BYTES = 1 << 10
const MAX_HEADER_CHARACTERS = 1 << 10

type Origin = { topic: Topic; partition: number; reason: string }

/**
 * The copy of a record. If key and value have more than `maxBytes`, they are cut, and headers state their lengths and
 * SHA-256. A time that no `Date` has is clamped, and a header states it.
 */
export const deadLetterCopy = (
  { topic, partition, reason }: Origin,
  record: KafkaRecord,
  maxBytes: number,
): KafkaMessage => {
  const value = record.value ?? Buffer.alloc(0)
  const schema = schemaHeaderOf(record)?.slice(0, MAX_HEADER_CHARACTERS)
  const timestamp = timeOf(record.timestamp)
  const fits = (record.key?.length ?? 0) + value.length <= maxBytes
  const key = fits ? record.key : (record.key?.subarray(0, MAX_CUT_KEY_BYTES) ?? null)
  const copied = fits ? value : value.subarray(0, Math.min(maxBytes, CUT_BYTES) - (key?.length ?? 0))
  return {
    key,
    value: copied,
    timestamp,
    headers: headersOf({
      'instar.topic': topic,
      'instar.partition': String(partition),
      'instar.offset': record.offset,
      'instar.reason': reason.slice(0, MAX_HEADER_CHARACTERS),
      ...(schema === undefined ? {} : { [SCHEMA_HEADER]: schema }),
      ...(String(timestamp) === record.timestamp ? {} : { 'instar.timestamp': record.timestamp }),
      ...(copied.length === value.length ? {} : sizeHeaders('value', value)),
      ...(!record.key || key?.length === record.key.length ? {} : sizeHeaders('key', record.key)),
    }),
  }
}

const sizeHeaders = (part: 'key' | 'value', bytes: Buffer): Record<string, string> => ({
  [`instar.${part}.bytes`]: String(bytes.length),
  [`instar.${part}.sha256`]: createHash('sha256').update(bytes).digest('hex'),
})
