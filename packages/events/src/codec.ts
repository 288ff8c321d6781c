/**
 * Avro codecs of all record versions. The payload is the same on every log; its prefix differs: a schema id in the
 * embedded log, the registry's five bytes on Kafka.
 */
import { readFileSync } from 'node:fs'
import avro from 'avsc'
import { essentialFields, valueIn } from './essential-fields.ts'
import { InstarError } from './errors.ts'
import { FLOW, NEWEST, newestVersion, TOPICS, type RecordName, type Topic, type Versions } from './flow.ts'
import { recordId } from './ids.ts'
import type { Event, Logged } from './records.ts'

/**
 * `text`: the schema as JSON. `resolver`: reads this version as the newest one that this build supports, by Avro schema
 * resolution; null for the newest version.
 */
type Codec = {
  schema: string
  topic: Topic
  name: RecordName
  avro: avro.Type
  text: string
  resolver: avro.Resolver | null
  /** Of a newer version than this build supports: fields without which a record must not be read, unless they are null. */
  essential?: readonly string[]
}

const folder = new URL('../../../schemas/', import.meta.url)

/** Avro `bytes` that accepts any Uint8Array; the library's type accepts Buffers only. */
class AnyBytes extends avro.types.LogicalType {
  protected override _fromValue(bytes: Buffer): Buffer {
    return bytes
  }
  protected override _toValue(bytes: unknown): Buffer | undefined {
    return bytes instanceof Uint8Array ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) : undefined
  }
  protected override _resolve(type: avro.Type): ((bytes: unknown) => unknown) | undefined {
    return type instanceof AnyBytes ? (bytes) => bytes : undefined
  }
}

/** Internal types of avsc, which its declarations do not include. */
type Tap = { buf: Buffer; pos: number; readLong(): number; skipLong(): void; readString(): string }
type AvroReader = { _read(tap: Tap): unknown }

/**
 * The item count of the next block; 0 at the end. A count above the remaining bytes is an error, since each item has at
 * least one byte: avsc would allocate memory for any count that the bytes state.
 */
const readBlockCount = (tap: Tap): number => {
  let count = tap.readLong()
  if (count < 0) {
    count = -count
    tap.skipLong()
  }
  const remaining = tap.buf.length - tap.pos
  if (count > remaining) throw new RangeError(`a block of ${count} items has only ${Math.max(0, remaining)} bytes left`)
  return count
}

class BoundedArray extends avro.types.ArrayType {
  protected _read(tap: Tap): unknown[] {
    const items = this.itemsType as unknown as AvroReader
    const values: unknown[] = []
    for (let count = readBlockCount(tap); count > 0; count = readBlockCount(tap))
      for (; count > 0; count -= 1) values.push(items._read(tap))
    return values
  }
  protected _skip(tap: Tap): void {
    this._read(tap)
  }
}

class BoundedMap extends avro.types.MapType {
  protected _read(tap: Tap): Record<string, unknown> {
    const values = this.valuesType as unknown as AvroReader
    const entries: [string, unknown][] = []
    for (let count = readBlockCount(tap); count > 0; count = readBlockCount(tap))
      for (; count > 0; count -= 1) entries.push([tap.readString(), values._read(tap)])
    return Object.fromEntries(entries)
  }
  protected _skip(tap: Tap): void {
    this._read(tap)
  }
}

type Attributes = { type?: unknown }
const typeHook = (schema: string | Attributes, options: object): avro.Type | undefined => {
  if (schema === 'bytes') return new AnyBytes({ type: 'bytes' })
  const type = typeof schema === 'string' ? null : schema.type
  if (type === 'array')
    return new (BoundedArray as unknown as new (schema: unknown, options: object) => avro.Type)(schema, options)
  if (type === 'map')
    return new (BoundedMap as unknown as new (schema: unknown, options: object) => avro.Type)(schema, options)
  return undefined
}

const typeOf = (text: string): avro.Type =>
  avro.Type.forSchema(JSON.parse(text) as avro.Schema, {
    wrapUnions: false,
    typeHook: typeHook as (schema: avro.Schema, options: object) => avro.Type,
  })

/** Codecs by schema name (`TurnCaptured.v1`), and the codec of the newest supported version by record type. */
const codecs = new Map<string, Codec>()
const newest = new Map<string, Codec>()
for (const topic of TOPICS) {
  for (const name of FLOW[topic].records) {
    for (let version = newestVersion(name); version >= 1; version -= 1) {
      const schema = `${name}.v${version}`
      const text = readFileSync(new URL(`${topic}/${schema}.avsc`, folder), 'utf8')
      const type = typeOf(text)
      const codec = {
        schema,
        topic,
        name,
        avro: type,
        text,
        resolver: newest.get(name)?.avro.createResolver(type) ?? null,
      }
      codecs.set(schema, codec)
      if (!newest.has(name)) newest.set(name, codec)
    }
  }
}

/** Avro JSON by schema name, for the embedded log and for the schema registry. */
export const schemaTexts = (): Record<string, string> =>
  Object.fromEntries([...codecs.values()].map((c) => [c.schema, c.text]))

/**
 * Whether `schema` is a newer version of a supported record type than this build supports. The log must then return the
 * writer's schema with the record.
 */
export const isLater = (schema: string): boolean => !codecs.has(schema) && newest.has(typeName(schema))

const typeName = (schema: string): string => /^(.+)\.v[1-9]\d*$/.exec(schema)?.[1] ?? ''

/** The record key of an event, by the flow table. */
export const keyOf = (event: Event): string => {
  const { key } = FLOW[topicOf(event)]
  return 'constant' in key ? key.constant : (event as unknown as Record<typeof key.field, string>)[key.field]
}

export const topicOf = (event: Event): Topic => newestOf(event.type).topic

const newestOf = (type: string): Codec => {
  const codec = newest.get(type)
  if (!codec) throw new InstarError('internal', `${type} is not a record type of this build`)
  return codec
}

/**
 * The codec of the newest version that both this build and all readers (`versions`) support. Throws `not_announced`.
 */
const writerOf = (type: string, versions: Versions): Codec => {
  const codec = newestOf(type)
  const version = versions.get(type) ?? 0
  if (version >= newestVersion(codec.name)) return codec
  const older = codecs.get(`${type}.v${version}`)
  if (!older)
    throw new InstarError(
      'not_announced',
      `a record of type ${type} cannot be written: no record on this log states that all readers support it`,
      { type },
    )
  return older
}

export type Encoded = { topic: Topic; key: string; schema: string; payload: Uint8Array; timestamp: number }

/**
 * Overwritten by each record that is encoded. By itself the library encodes what is longer than 1 KiB twice, and each record
 * into memory that is cleared before.
 */
const SCRATCH = Buffer.allocUnsafe(64 * 1024)

/** The record of an event, with its id. */
export const encodeEvent = (event: Event, versions: Versions = NEWEST): Encoded & { id: string } => {
  const record = encodeRecord(event, versions)
  return { ...record, id: recordId(record) }
}

/**
 * The record of an event without its id, in the newest version that all readers support; fields that only newer
 * versions have are dropped. Throws `bad_record` for a field that violates the schema, and `not_announced` for a type
 * that not all readers support.
 */
export const encodeRecord = (event: Event, versions: Versions = NEWEST): Encoded => {
  const codec = writerOf(event.type, versions)
  let payload: Uint8Array
  try {
    const end = codec.avro.encode(event, SCRATCH)
    payload = end < 0 ? codec.avro.toBuffer(event) : Buffer.from(SCRATCH.subarray(0, end))
  } catch (cause) {
    throw new InstarError(
      'bad_record',
      `the ${event.type} event violates its schema: ${(cause as Error).message}`,
      { type: event.type },
      { cause },
    )
  }
  return { topic: codec.topic, key: keyOf(event), schema: codec.schema, payload, timestamp: event.at }
}

/**
 * `avro`: the writer's schema, if the log has it and this build does not. `damaged`: it does not match the checksum that
 * it was written with.
 */
type StoredRecord = {
  topic: Topic
  key: string
  schema: string
  payload: Uint8Array
  timestamp: number
  partition: number
  offset: number
  id?: string
  avro?: string
  damaged?: true
}

/**
 * Decodes a record. A newer version than this build supports is read with its writer's schema, without the fields that
 * it adds. Throws `unknown_record` for an unknown type, a version that changes more than it adds, or one with a value in an
 * essential field that this build lacks (the reader must stop), and `bad_record` for bytes that do not match their schema or their checksum.
 */
export const decodeRecord = (record: StoredRecord): Logged => {
  if (record.damaged) throw changed(record)
  const codec = codecs.get(record.schema) ?? newerCodec(record)
  if (codec.topic !== record.topic) throw unknown(record, 'which belongs to another topic')
  const payload = Buffer.from(record.payload.buffer, record.payload.byteOffset, record.payload.byteLength)
  let event: Event
  let unread: string | undefined
  try {
    unread = valueIn(codec.essential ?? [], () => codec.avro.fromBuffer(payload) as Record<string, unknown>)
    event = (
      codec.resolver ? newestOf(codec.name).avro.fromBuffer(payload, codec.resolver) : codec.avro.fromBuffer(payload)
    ) as Event
    event.type = codec.name
  } catch (cause) {
    throw new InstarError(
      'bad_record',
      `the record at ${record.topic} ${record.partition}@${record.offset} does not match its schema ${record.schema}: ${(cause as Error).message}`,
      { topic: record.topic, offset: record.offset },
      { cause },
    )
  }
  if (unread !== undefined) throw unknown(record, `whose field ${unread} this build does not know and must not ignore`)
  return {
    id: (record.id ??= recordId(record)),
    topic: record.topic,
    key: record.key,
    partition: record.partition,
    offset: record.offset,
    timestamp: record.timestamp,
    event,
  }
}

/** The error for a record that does not match the checksum that it was written with. */
export const changed = ({
  topic,
  partition,
  offset,
}: Pick<StoredRecord, 'topic' | 'partition' | 'offset'>): InstarError =>
  new InstarError(
    'bad_record',
    `the record at ${topic} ${partition}@${offset} does not match its checksum: its bytes changed after it was written`,
    { topic, offset },
  )

const unknown = (record: StoredRecord, why: string, cause?: unknown): InstarError =>
  new InstarError(
    'unknown_record',
    `the record at ${record.topic} ${record.partition}@${record.offset} has the type ${record.schema}, ${why}`,
    { topic: record.topic, partition: record.partition, offset: record.offset, schema: record.schema },
    { cause },
  )

/** Cached codecs of newer versions. A log has far fewer of them than the limit. */
const newerCodecs = new Map<string, Codec>()
const MOST_NEWER_CODECS = 256

/** The codec of a newer version of a supported type, from its writer's schema. Throws `unknown_record`. */
const newerCodec = (record: StoredRecord): Codec => {
  const cached = newerCodecs.get(record.schema)
  if (cached && cached.text === record.avro) return cached
  const known = newest.get(typeName(record.schema))
  if (!known) throw unknown(record, 'which this build does not know')
  if (record.avro === undefined) throw unknown(record, 'whose schema is neither in this build nor on the log')
  try {
    const type = typeOf(record.avro)
    const codec = {
      ...known,
      schema: record.schema,
      avro: type,
      text: record.avro,
      resolver: known.avro.createResolver(type),
      essential: essentialFields(record.avro, known.text),
    }
    if (newerCodecs.size >= MOST_NEWER_CODECS) newerCodecs.clear()
    newerCodecs.set(record.schema, codec)
    return codec
  } catch (cause) {
    throw unknown(record, `which cannot be read as ${known.schema}: ${(cause as Error).message}`, cause)
  }
}

/** Like `decodeRecord`, but returns null instead of throwing `bad_record`: readers skip such records. */
export const decodeReadable = (record: StoredRecord): Logged | null => {
  try {
    return decodeRecord(record)
  } catch (error) {
    if (error instanceof InstarError && error.code === 'bad_record') return null
    throw error
  }
}

const decoder = new TextDecoder()
/** The record field (`Written`) of a text that a person or the model wrote. Encryption would be added here. */
export const written = (text: string): { keyId: null; bytes: Uint8Array } => ({
  keyId: null,
  bytes: Buffer.from(text),
})
/** The text of a `Written` field. */
export const readWritten = (field: { bytes: Uint8Array }): string => decoder.decode(field.bytes)
