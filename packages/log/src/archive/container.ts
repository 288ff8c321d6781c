/**
 * The form of an archived object: an Avro object container file (Avro 1.11, "Object Container Files") with a fixed header,
 * so that any Avro library reads it. Our own reader takes no other header, and bounds what a block may become.
 */
import { InstarError } from '@instar/events/errors'
import avro from 'avsc'
import { createHash } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { LogRecord } from '../port.ts'

export type Archived = Pick<LogRecord, 'offset' | 'timestamp' | 'schema' | 'key' | 'payload'>

/** `null`: bytes as they are, for blobs, which are numbers and do not become smaller. */
export type Codec = 'null' | 'deflate'

const SCHEMA = JSON.stringify({
  type: 'record',
  name: 'ArchivedRecord',
  namespace: 'instar',
  fields: [
    { name: 'offset', type: 'long' },
    { name: 'timestamp', type: 'long' },
    { name: 'schema', type: 'string' },
    { name: 'key', type: 'string' },
    { name: 'payload', type: 'bytes' },
  ],
})
const RECORD = avro.Type.forSchema(JSON.parse(SCHEMA) as avro.Schema)
const LONG = avro.Type.forSchema('long')
const META = avro.Type.forSchema({ type: 'map', values: 'bytes' })

/** Bytes of records per block, before compression, unless it has a single record. */
const BLOCK_BYTES = 256 << 10
/** Largest block before compression, and so about the largest record that can be archived. */
export const MAX_BLOCK_BYTES = 64 << 20
/** An object ends with the block that reaches this size. */
export const OBJECT_BYTES = 8 << 20
/** Largest object: its blocks up to `OBJECT_BYTES`, and a last one of a single large record. */
export const MAX_OBJECT_BYTES = OBJECT_BYTES + MAX_BLOCK_BYTES + (1 << 20)

/** The level of zlib that is fastest: 2 compresses a turn by a tenth more and takes a third longer. */
const LEVEL = 1

/** Ends each block. A constant, so that the same records are the same bytes. */
const SYNC = createHash('sha256').update('instar archive').digest().subarray(0, 16)

const headerOf = (codec: Codec): Buffer =>
  Buffer.concat([
    Buffer.from('Obj\x01'),
    META.toBuffer({ 'avro.schema': Buffer.from(SCHEMA), 'avro.codec': Buffer.from(codec) }),
    SYNC,
  ])
const HEADERS: Readonly<Record<Codec, Buffer>> = { null: headerOf('null'), deflate: headerOf('deflate') }

/** Collects the records of one object. */
export class ObjectWriter {
  readonly #codec: Codec
  readonly #limit: number
  readonly #blockLimit: number
  readonly #parts: Buffer[]
  #block: Buffer[] = []
  #blockBytes = 0
  #bytes: number
  /** The earliest and the latest of the records that were added, ms since 1970. */
  readonly times: [earliest: number, latest: number] = [Infinity, -Infinity]

  /** `limit`: bytes of a full object. */
  constructor(codec: Codec, limit: number) {
    this.#codec = codec
    this.#limit = limit
    this.#blockLimit = Math.min(limit, BLOCK_BYTES)
    this.#parts = [HEADERS[codec]]
    this.#bytes = HEADERS[codec].length
  }

  /** Adds a record. Returns whether the object is full. Throws `bad_record` for a record beyond `MAX_BLOCK_BYTES`. */
  add({ offset, timestamp, schema, key, payload }: Archived): boolean {
    const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.length)
    const record = RECORD.toBuffer({ offset, timestamp, schema, key, payload: bytes })
    if (record.length > MAX_BLOCK_BYTES)
      throw new InstarError(
        'bad_record',
        `a record of ${record.length} bytes cannot be archived: ${MAX_BLOCK_BYTES} at most`,
        {
          offset,
        },
      )
    if (this.#blockBytes > 0 && this.#blockBytes + record.length > this.#blockLimit) this.#endBlock()
    this.times[0] = Math.min(this.times[0], timestamp)
    this.times[1] = Math.max(this.times[1], timestamp)
    this.#block.push(record)
    this.#blockBytes += record.length
    if (this.#blockBytes >= this.#blockLimit) this.#endBlock()
    return this.#bytes >= this.#limit
  }

  finish(): Buffer {
    if (this.#blockBytes > 0) this.#endBlock()
    return Buffer.concat(this.#parts, this.#bytes)
  }

  #endBlock(): void {
    const raw = Buffer.concat(this.#block, this.#blockBytes)
    const data = this.#codec === 'null' ? raw : deflateRawSync(raw, { level: LEVEL })
    for (const part of [LONG.toBuffer(this.#block.length), LONG.toBuffer(data.length), data, SYNC]) {
      this.#parts.push(part)
      this.#bytes += part.length
    }
    this.#block = []
    this.#blockBytes = 0
  }
}

/** The object is not of this form. */
export class NotAnObject extends Error {}

const longAt = (bytes: Buffer, at: number): { value: number; at: number } => {
  try {
    const { value, offset } = LONG.decode(bytes, at) as { value: number; offset: number }
    if (offset > at) return { value, at: offset }
  } catch {
    // A number of more than 53 bits.
  }
  throw new NotAnObject(`it ends or is damaged at byte ${at}`)
}

/** Bytes of an object: where the block begins, and where its records, as stored, begin and end. `count`: of them. */
type Block = { at: number; from: number; to: number; count: number }

/** The writer makes fewer than 60,000, whatever deflate makes of the records. */
const MAX_BLOCKS = 100_000

const blocksOf = (object: Buffer, codec: Codec): Block[] => {
  const blocks: Block[] = []
  let at = HEADERS[codec].length
  while (at < object.length) {
    if (blocks.length === MAX_BLOCKS) throw new NotAnObject(`it has more than ${MAX_BLOCKS} blocks`)
    const count = longAt(object, at)
    const size = longAt(object, count.at)
    const end = size.at + size.value
    if (count.value < 1 || size.value < 1 || end + SYNC.length > object.length)
      throw new NotAnObject(`its block at byte ${at} is cut off or damaged`)
    if (!object.subarray(end, end + SYNC.length).equals(SYNC))
      throw new NotAnObject(`its block at byte ${at} does not end where it says`)
    blocks.push({ at, from: size.at, to: end, count: count.value })
    at = end + SYNC.length
  }
  return blocks
}

/** The blocks of an object, each decompressed and decoded when it is asked for. */
export class ObjectBlocks {
  readonly #object: Buffer
  readonly #codec: Codec
  readonly #blocks: Block[]
  /** Records of all blocks. */
  readonly records: number

  /** Throws `NotAnObject`. */
  constructor(object: Buffer) {
    const codec = (['deflate', 'null'] as const).find((each) =>
      object.subarray(0, HEADERS[each].length).equals(HEADERS[each]),
    )
    if (!codec) throw new NotAnObject('it does not begin like an archived object')
    this.#object = object
    this.#codec = codec
    this.#blocks = blocksOf(object, codec)
    this.records = this.#blocks.reduce((sum, { count }) => sum + count, 0)
  }

  get length(): number {
    return this.#blocks.length
  }

  /** The records of a block. Throws `NotAnObject`. A record's payload is a view of the block. */
  read(index: number): Archived[] {
    const { at, from, to, count } = this.#blocks[index]!
    return recordsOf(unpacked(this.#object.subarray(from, to), this.#codec, at), count, at)
  }
}

/** The records of an object, a block at a time. Throws `NotAnObject`. */
export function* readObject(object: Buffer): Generator<Archived[]> {
  const blocks = new ObjectBlocks(object)
  for (let index = 0; index < blocks.length; index += 1) yield blocks.read(index)
}

const unpacked = (data: Buffer, codec: Codec, at: number): Buffer => {
  if (codec === 'null' && data.length <= MAX_BLOCK_BYTES) return data
  try {
    if (codec === 'deflate') return inflateRawSync(data, { maxOutputLength: MAX_BLOCK_BYTES })
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== 'ERR_BUFFER_TOO_LARGE')
      throw new NotAnObject(`its block at byte ${at} cannot be decompressed`, { cause })
  }
  throw new NotAnObject(`its block at byte ${at} is larger than ${MAX_BLOCK_BYTES} bytes`)
}

const recordsOf = (block: Buffer, count: number, at: number): Archived[] => {
  const records: Archived[] = []
  let next = 0
  // A record has at least five bytes, so that `count` bounds nothing that the block does not.
  for (let i = 0; i < count; i++) {
    const { value, offset } = decoded(block, next, at)
    records.push({ ...value })
    next = offset
  }
  if (next !== block.length) throw new NotAnObject(`its block at byte ${at} has more than its ${count} records`)
  return records
}

const decoded = (block: Buffer, next: number, at: number): { value: Archived; offset: number } => {
  try {
    const found = RECORD.decode(block, next) as { value: Archived; offset: number }
    if (found.offset > next) return found
  } catch {
    // A number of more than 53 bits.
  }
  throw new NotAnObject(`a record of its block at byte ${at} is cut off or damaged`)
}
