/**
 * Avro codecs of every record version. The payload is the same on every log; only what stands before it
 * differs (an id in the embedded log, the registry's five bytes in Kafka).
 */
import { readFileSync } from 'node:fs'
import avro from 'avsc'
import { InstarError } from './errors.ts'
import { FLOW, NEWEST, newestVersion, TOPICS, type RecordName, type Topic, type Versions } from './flow.ts'
import { recordId } from './ids.ts'
import type { Event, Logged } from './records.ts'

/**
 * `resolver` reads this version into the newest one that this build supports, by Avro's schema resolution. Null for
 * the newest version.
 */
type Codec = {
  schema: string
  topic: Topic
  name: RecordName
  avro: avro.Type
  text: string
  resolver: avro.Resolver | null
}

const folder = new URL('../../../schemas/', import.meta.url)

/** Avro `bytes` from any Uint8Array: the library's own type takes Buffers alone. */
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

/** What avsc reads from, and what its types read with: not among the types that it declares. */
type Tap = { buf: Buffer; pos: number; readLong(): number; skipLong(): void; readString(): string }
type AvroReader = { _read(tap: Tap): unknown }

/**
 * The item count of the next block, 0 at the end. Each item takes at least one byte, so a larger count is refused:
 * avsc would allocate a billion items for ten bytes that claim so many.
 */
const blockOf = (tap: Tap): number => {
  let count = tap.readLong()
  if (count < 0) {
    count = -count
    tap.skipLong()
  }
  const left = tap.buf.length - tap.pos
  if (count > left) throw new RangeError(`${count} items in ${Math.max(0, left)} bytes`)
  return count
}

class BoundedArray extends avro.types.ArrayType {
  protected _read(tap: Tap): unknown[] {
    const items = this.itemsType as unknown as AvroReader
    const read: unknown[] = []
    for (let left = blockOf(tap); left > 0; left = blockOf(tap)) for (; left > 0; left -= 1) read.push(items._read(tap))
    return read
  }
  protected _skip(tap: Tap): void {
    this._read(tap)
  }
}

class BoundedMap extends avro.types.MapType {
  protected _read(tap: Tap): Record<string, unknown> {
    const values = this.valuesType as unknown as AvroReader
    const read: [string, unknown][] = []
    for (let left = blockOf(tap); left > 0; left = blockOf(tap))
      for (; left > 0; left -= 1) read.push([tap.readString(), values._read(tap)])
    return Object.fromEntries(read)
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

/** Codecs by schema (`TurnCaptured.v1`), and the newest supported version of each type. */
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

/** Schema name → Avro JSON: what `openEmbeddedLog` stores and the registry registers. */
export const schemaTexts = (): Record<string, string> =>
  Object.fromEntries([...codecs.values()].map((c) => [c.schema, c.text]))

/**
 * Whether `schema` is a newer version of one of our types than this build supports. The log then has to give the
 * writer's schema with the record.
 */
export const isLater = (schema: string): boolean => !codecs.has(schema) && newest.has(typeName(schema))

const typeName = (schema: string): string => /^(.+)\.v[1-9]\d*$/.exec(schema)?.[1] ?? ''

/** The key of an event on its topic, by the flow table. */
export const keyOf = (event: Event): string => {
  const { key } = FLOW[topicOf(event)]
  return 'constant' in key ? key.constant : (event as unknown as Record<typeof key.field, string>)[key.field]
}

export const topicOf = (event: Event): Topic => newestOf(event.type).topic

const newestOf = (type: string): Codec => {
  const codec = newest.get(type)
  if (!codec) throw new InstarError('internal', `there is no record type ${type}`)
  return codec
}

/** The version to write when readers support `versions`: never newer than this build or the readers support. */
const writtenBy = (type: string, versions: Versions): Codec => {
  const codec = newestOf(type)
  const version = versions.get(type) ?? 0
  if (version >= newestVersion(codec.name)) return codec
  const older = codecs.get(`${type}.v${version}`)
  if (!older)
    throw new InstarError(
      'not_announced',
      `${type} is not written yet: no record on the log says that all readers know it`,
      { type },
    )
  return older
}

export type Encoded = { topic: Topic; key: string; schema: string; payload: Uint8Array; timestamp: number }

/** The record of `event` with its id, the hash of the whole record. `encodeRecord` leaves the id out. */
export const encodeEvent = (event: Event, versions: Versions = NEWEST): Encoded & { id: string } => {
  const record = encodeRecord(event, versions)
  return { ...record, id: recordId(record) }
}

/**
 * The record of `event`, in the version that all readers support; fields that only a newer version has are left out.
 * Throws `bad_record` when a field breaks the schema, `not_announced` for a type that some reader does not support.
 */
export const encodeRecord = (event: Event, versions: Versions = NEWEST): Encoded => {
  const codec = writtenBy(event.type, versions)
  let payload: Uint8Array
  try {
    payload = codec.avro.toBuffer(event)
  } catch (cause) {
    throw new InstarError(
      'bad_record',
      `${event.type} does not fit its schema: ${(cause as Error).message}`,
      { type: event.type },
      { cause },
    )
  }
  return { topic: codec.topic, key: keyOf(event), schema: codec.schema, payload, timestamp: event.at }
}

/** `avro`: the writer's schema, which the log gives where this build does not know it. */
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
}

/**
 * Decodes a record. A version newer than this build is read by its writer's schema, without the fields that it adds.
 * Throws `unknown_record` for a type that this build does not support, or a version that does more than add fields
 * (the reader must stop), and `bad_record` for bytes that no build can read.
 */
export const decodeRecord = (record: StoredRecord): Logged => {
  const codec = codecs.get(record.schema) ?? foreign(record)
  if (codec.topic !== record.topic) throw unknown(record, 'which this build does not know')
  const payload = Buffer.from(record.payload.buffer, record.payload.byteOffset, record.payload.byteLength)
  let event: Event
  try {
    event = (
      codec.resolver ? newestOf(codec.name).avro.fromBuffer(payload, codec.resolver) : codec.avro.fromBuffer(payload)
    ) as Event
    event.type = codec.name
  } catch (cause) {
    throw new InstarError(
      'bad_record',
      `${record.topic} ${record.partition}@${record.offset} is not a ${record.schema}: ${(cause as Error).message}`,
      { topic: record.topic, offset: record.offset },
      { cause },
    )
  }
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

const unknown = (record: StoredRecord, why: string, cause?: unknown): InstarError =>
  new InstarError(
    'unknown_record',
    `${record.topic} holds a record of the type ${record.schema}, ${why}`,
    { topic: record.topic, offset: record.offset, schema: record.schema },
    { cause },
  )

/** Cached codecs of newer versions; the limit is far above what one log holds. */
const foreigners = new Map<string, Codec>()
const MOST_FOREIGNERS = 256

/** The codec of a newer version of a supported type, by its writer's schema. Throws `unknown_record`. */
const foreign = (record: StoredRecord): Codec => {
  const met = foreigners.get(record.schema)
  if (met && met.text === record.avro) return met
  const known = newest.get(typeName(record.schema))
  if (!known) throw unknown(record, 'which this build does not know')
  if (record.avro === undefined) throw unknown(record, 'whose schema neither this build nor the log has')
  try {
    const type = typeOf(record.avro)
    const codec = {
      ...known,
      schema: record.schema,
      avro: type,
      text: record.avro,
      resolver: known.avro.createResolver(type),
    }
    if (foreigners.size >= MOST_FOREIGNERS) foreigners.clear()
    foreigners.set(record.schema, codec)
    return codec
  } catch (cause) {
    throw unknown(record, `which is no addition to ${known.schema}: ${(cause as Error).message}`, cause)
  }
}

/** As `decodeRecord`, but returns null for bytes that no build can read, which readers skip. */
export const decodeReadable = (record: StoredRecord): Logged | null => {
  try {
    return decodeRecord(record)
  } catch (error) {
    if (error instanceof InstarError && error.code === 'bad_record') return null
    throw error
  }
}

const utf8 = new TextDecoder()
const toUtf8 = new TextEncoder()
/** Encodes and decodes a person's text as a record field. Encryption belongs here. */
export const written = (text: string): { keyId: null; bytes: Uint8Array } => ({
  keyId: null,
  bytes: Buffer.from(toUtf8.encode(text)),
})
export const readWritten = (field: { bytes: Uint8Array }): string => utf8.decode(field.bytes)
