/**
 * Decoder of the batches of a fetched partition: Kafka's record batch format v2 (magic 2, KIP-98,
 * https://kafka.apache.org/documentation/#recordbatch), from an offset on and within limits, in time and memory that are
 * linear in the bytes. kafkajs's decoder has neither limits nor checksums, allocates memory for any number of records
 * that a batch states, and needs hours for a record with many headers.
 */
import type { KafkaRecord } from './client.ts'
import { crc32c } from './crc32c.ts'
import { codecOf, decompress } from './decompression.ts'
import { MalformedRecord, RecordReader, type BatchHeader } from './record-reader.ts'

/**
 * Maximum bytes of a decompressed batch, and of all those of one fetch: eight times the largest batch that the log's
 * topics accept. Instar does not compress; text of a program that copies the log shrinks to about a fifth.
 */
export const MAX_DECOMPRESSED_BYTES = 64 << 20
/** Maximum records of one fetch. The next fetch continues within the batch. */
export const MAX_FETCHED_RECORDS = 32_768

/** What the batches of one fetch may still have, for all its partitions. */
export type FetchBudget = { decompressed: number; records: number }
export const fetchBudget = (): FetchBudget => ({ decompressed: MAX_DECOMPRESSED_BYTES, records: MAX_FETCHED_RECORDS })

export type RecordSet = {
  /** In order of offsets, none below the requested offset; those of transaction markers are left out. */
  records: KafkaRecord[]
  /** The first offsets after the requested one that have no record and no marker of a transaction, `next` exclusive. */
  missing?: { first: number; next: number }
  /** The offset of the next fetch. */
  next: number
}

/** A batch that no reader can decode. `offset`: of the batch. */
export class UnreadableBatch extends Error {
  readonly code: 'batch_damaged' | 'batch_too_large' | 'unsupported_codec'
  readonly offset: number
  readonly codec: string

  constructor(code: UnreadableBatch['code'], offset: number, codec: string, what: string) {
    super(what)
    this.code = code
    this.offset = offset
    this.codec = codec
  }
}

/** Byte offsets in a batch. The checksum is over the bytes from the attributes on. */
const LENGTH_AT = 8
const MAGIC_AT = 16
const CHECKSUM_AT = 17
const ATTRIBUTES_AT = 21
const LAST_DELTA_AT = 23
const BASE_TIME_AT = 27
const MAX_TIME_AT = 35
const COUNT_AT = 57
const RECORDS_AT = 61
/** Bytes before those that a batch's length counts. */
const PREFIX = 12
const MAGIC = 2
/** Flags of the attributes. */
const LOG_APPEND_TIME = 0x08
const CONTROL = 0x20
/** The fewest bytes of a record: length, attributes, time, offset, no key, no value, no headers. */
const SMALLEST_RECORD = 7

type Batch = BatchHeader & {
  count: number
  codec: string
  /** The records, perhaps compressed. */
  body: Buffer
}

/**
 * Decodes the records from offset `from` on. Stops where the budget or the bytes end, and before an unreadable batch
 * that follows a readable one. Throws `UnreadableBatch` if the first batch is unreadable.
 */
export const decodeRecordSet = async (bytes: Buffer, from: number, budget: FetchBudget): Promise<RecordSet> => {
  const set: RecordSet = { records: [], next: from }
  for (let at = 0; at + PREFIX <= bytes.length && budget.records > 0;) {
    const end = at + PREFIX + bytes.readInt32BE(at + LENGTH_AT)
    if (end > bytes.length) break
    try {
      const batch = batchIn(bytes.subarray(at, Math.max(at, end)))
      if (batch.lastOffset >= from && !(await decodeBatch(batch, set, budget))) break
    } catch (cause) {
      if (!(cause instanceof UnreadableBatch) || set.next === from) throw cause
      break
    }
    at = end
  }
  return set
}

const damaged = (offset: number, what: string): UnreadableBatch =>
  new UnreadableBatch('batch_damaged', offset, 'none', what)

const batchIn = (bytes: Buffer): Batch => {
  const offset = bytes.length < PREFIX ? NaN : Number(bytes.readBigInt64BE(0))
  if (!Number.isSafeInteger(offset) || offset < 0) throw damaged(0, 'a batch has no valid offset')
  if (bytes.length <= MAGIC_AT) throw damaged(offset, `it has only ${bytes.length} bytes`)
  if (bytes[MAGIC_AT] !== MAGIC)
    throw damaged(offset, `its format is version ${bytes[MAGIC_AT]}, readers know version ${MAGIC}`)
  if (bytes.length < RECORDS_AT) throw damaged(offset, `it has only ${bytes.length} bytes`)
  if (bytes.readUInt32BE(CHECKSUM_AT) !== crc32c(bytes, ATTRIBUTES_AT)) throw damaged(offset, 'its checksum is wrong')
  const attributes = bytes.readInt16BE(ATTRIBUTES_AT)
  const lastDelta = bytes.readInt32BE(LAST_DELTA_AT)
  const count = bytes.readInt32BE(COUNT_AT)
  if (lastDelta < 0 || count < 0 || count > lastDelta + 1)
    throw damaged(offset, `it states ${count} records up to the offset ${offset + lastDelta}`)
  return {
    offset,
    lastOffset: offset + lastDelta,
    isControlRecord: (attributes & CONTROL) !== 0,
    appendTime: (attributes & LOG_APPEND_TIME) !== 0 ? bytes.readBigInt64BE(MAX_TIME_AT) : null,
    baseTime: bytes.readBigInt64BE(BASE_TIME_AT),
    count,
    codec: codecOf(attributes),
    body: bytes.subarray(RECORDS_AT),
  }
}

/** Adds the records of a batch to the set. Returns false if the budget ends before the batch does. */
const decodeBatch = async (batch: Batch, set: RecordSet, budget: FetchBudget): Promise<boolean> => {
  const body = await unpack(batch, budget)
  if (!body) return false
  const { offset, lastOffset, count } = batch
  if (count > body.length / SMALLEST_RECORD) throw damaged(offset, `it states ${count} records in ${body.length} bytes`)
  const reader = new RecordReader(body, batch)
  for (let i = 0; i < count; i++) {
    if (budget.records === 0) return false
    const record = nextOf(reader, batch, set.next)
    if (!record) continue
    pass(set, record.at)
    set.next = record.at + 1
    if (batch.isControlRecord) continue
    set.records.push(record.record)
    budget.records--
  }
  pass(set, lastOffset + 1)
  set.next = lastOffset + 1
  return true
}

const nextOf = (reader: RecordReader, { offset }: Batch, from: number): ReturnType<RecordReader['next']> => {
  try {
    return reader.next(from)
  } catch (cause) {
    throw cause instanceof MalformedRecord ? damaged(offset, 'its records are malformed') : cause
  }
}

/** Notes the offsets before `offset` that have no record. Kafka assigns offsets without gaps; compaction removes some. */
const pass = (set: RecordSet, offset: number): void => {
  if (offset > set.next) set.missing ??= { first: set.next, next: offset }
}

/** The bytes of a batch's records; undefined if the budget leaves the batch to the next fetch. */
const unpack = async ({ codec, body, offset }: Batch, budget: FetchBudget): Promise<Buffer | undefined> => {
  if (codec === 'none') return body
  if (budget.decompressed === 0) return undefined
  const unpacked = await decompress(codec, body, budget.decompressed)
  if (unpacked === 'unsupported')
    throw new UnreadableBatch('unsupported_codec', offset, codec, `it is compressed with ${codec}`)
  if (unpacked === 'damaged') throw damaged(offset, `its bytes are not of ${codec}`)
  if (unpacked !== 'too large') {
    budget.decompressed -= unpacked.bytes.length
    return unpacked.bytes
  }
  if (budget.decompressed === MAX_DECOMPRESSED_BYTES)
    throw new UnreadableBatch(
      'batch_too_large',
      offset,
      codec,
      `it has more than ${MAX_DECOMPRESSED_BYTES} bytes after decompression`,
    )
  budget.decompressed = 0
  return undefined
}
