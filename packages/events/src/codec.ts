/**
 * Avro codecs of every record version. The payload is the same on every log; only what stands before it
 * differs (an id in the embedded log, the registry's five bytes in Kafka).
 */
import { readFileSync } from 'node:fs'
import avro from 'avsc'
import { InstarError } from './errors.ts'
import { FLOW, TOPICS, writtenVersion, type RecordName, type Topic } from './flow.ts'
import { recordId } from './ids.ts'
import type { Event, Logged } from './records.ts'

/** `missing`: the type, and fields that later versions added, with their defaults. */
type Codec = { schema: string; topic: Topic; name: RecordName; avro: avro.Type; text: string; missing: Readonly<Record<string, unknown>> }

const folder = new URL('../../../schemas/', import.meta.url)

/** Avro `bytes` from any Uint8Array: the library's own type takes Buffers alone. */
class AnyBytes extends avro.types.LogicalType {
  protected override _fromValue(bytes: Buffer): Buffer {
    return bytes
  }
  protected override _toValue(bytes: unknown): Buffer | undefined {
    return bytes instanceof Uint8Array ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) : undefined
  }
}
const typeHook = (schema: unknown): avro.Type | undefined => (schema === 'bytes' ? new AnyBytes({ type: 'bytes' }) : undefined)

/** By schema (`TurnCaptured.v1`), and by type the version that is written. */
const codecs = new Map<string, Codec>()
const current = new Map<string, Codec>()
for (const topic of TOPICS) {
  for (const name of FLOW[topic].records) {
    const versions = Array.from({ length: writtenVersion(name) }, (_, i) => {
      const schema = `${name}.v${i + 1}`
      const text = readFileSync(new URL(`${topic}/${schema}.avsc`, folder), 'utf8')
      return { schema, text, parsed: JSON.parse(text) as { fields: { name: string; default?: unknown }[] } }
    })
    const { fields } = versions.at(-1)!.parsed
    for (const { schema, text, parsed } of versions) {
      const type = avro.Type.forSchema(parsed as avro.Schema, { wrapUnions: false, typeHook: typeHook as (schema: avro.Schema) => avro.Type })
      const known = new Set(parsed.fields.map((field) => field.name))
      const missing = Object.fromEntries(fields.filter((field) => !known.has(field.name)).map((field) => [field.name, field.default]))
      const codec = { schema, topic, name, avro: type, text, missing: { ...missing, type: name } }
      codecs.set(schema, codec)
      current.set(name, codec)
    }
  }
}

/** Schema name → Avro JSON: what `openEmbeddedLog` stores and the registry registers. */
export const schemaTexts = (): Record<string, string> => Object.fromEntries([...codecs.values()].map((c) => [c.schema, c.text]))

/** The key of an event on its topic: session, policy or sha256 (flow.ts). */
export const keyOf = (event: Event): string =>
  event.type === 'BlobChunk' ? event.sha256
    : event.type === 'TurnCaptured' || event.type === 'TurnAborted' || event.type === 'TurnSampled' || event.type === 'FeedbackGiven' || event.type === 'SessionClosed' || event.type === 'SessionLinked' ? event.session
      : event.policy

export const topicOf = (event: Event): Topic => codecOf(event.type).topic

const codecOf = (type: string): Codec => {
  const codec = current.get(type)
  if (!codec) throw new InstarError('internal', `there is no record type ${type}`)
  return codec
}

export type Encoded = { topic: Topic; key: string; schema: string; payload: Uint8Array; timestamp: number }

/** The record that says `event`, and the id that it will have: a hash of all of it, which `encodeRecord` leaves out. */
export const encodeEvent = (event: Event): Encoded & { id: string } => {
  const record = encodeRecord(event)
  return { ...record, id: recordId(record) }
}

/** The record that says `event`. Throws `bad_record` when a field breaks the schema. */
export const encodeRecord = (event: Event): Encoded => {
  const codec = codecOf(event.type)
  let payload: Uint8Array
  try {
    payload = codec.avro.toBuffer(event)
  } catch (cause) {
    throw new InstarError('bad_record', `${event.type} does not fit its schema: ${(cause as Error).message}`, { type: event.type }, { cause })
  }
  return { topic: codec.topic, key: keyOf(event), schema: codec.schema, payload, timestamp: event.at }
}

type Stored = { topic: Topic; key: string; schema: string; payload: Uint8Array; timestamp: number; partition: number; offset: number; id?: string }

/**
 * Throws `unknown_record` for a schema that this build does not know (on a chain the reader must stop) and
 * `bad_record` for bytes that no build can read.
 */
export const decodeRecord = (record: Stored): Logged => {
  const codec = codecs.get(record.schema)
  if (!codec || codec.topic !== record.topic) throw new InstarError('unknown_record', `${record.topic} holds a record of the type ${record.schema}, which this build does not know`, { topic: record.topic, offset: record.offset, schema: record.schema })
  const payload = Buffer.from(record.payload.buffer, record.payload.byteOffset, record.payload.byteLength)
  let event: Event
  try {
    event = Object.assign(codec.avro.fromBuffer(payload) as object, codec.missing) as Event
  } catch (cause) {
    throw new InstarError('bad_record', `${record.topic} ${record.partition}@${record.offset} is not a ${record.schema}: ${(cause as Error).message}`, { topic: record.topic, offset: record.offset }, { cause })
  }
  return { id: record.id ??= recordId(record), topic: record.topic, key: record.key, partition: record.partition, offset: record.offset, timestamp: record.timestamp, event }
}

/** As `decodeRecord`, but null for bytes that no build can read: readers pass over them. */
export const decodeReadable = (record: Stored): Logged | null => {
  try {
    return decodeRecord(record)
  } catch (error) {
    if (error instanceof InstarError && error.code === 'bad_record') return null
    throw error
  }
}

const utf8 = new TextDecoder()
const toUtf8 = new TextEncoder()
/** A person's words as a record field, and back. Encryption, once keys exist, happens here. */
export const written = (text: string): { keyId: null; bytes: Uint8Array } => ({ keyId: null, bytes: Buffer.from(toUtf8.encode(text)) })
export const readWritten = (field: { bytes: Uint8Array }): string => utf8.decode(field.bytes)
