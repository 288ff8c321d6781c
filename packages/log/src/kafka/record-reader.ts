/** Reads the records of a decompressed batch (record-set.ts) one by one, in time that is linear in their bytes. */
import type { KafkaRecord } from './client.ts'

export type BatchHeader = {
  /** Of the first and the last record. */
  offset: number
  lastOffset: number
  isControlRecord: boolean
  /** The time of all records; null if each has its own. */
  appendTime: bigint | null
  baseTime: bigint
}

/** The bytes are not of a record. */
export class MalformedRecord extends Error {}

/** Headers with other names are not kept. */
const OWN_HEADERS = Buffer.from('instar.', 'utf8')

/** The sum of two 64-bit numbers, which wraps as Kafka's does. */
const sum = (base: bigint, delta: number | bigint): number | bigint => {
  const exact = Number(base) + Number(delta)
  return Number.isSafeInteger(exact) && Number.isSafeInteger(Number(base))
    ? exact
    : BigInt.asIntN(64, base + BigInt(delta))
}

/** Offsets increase from record to record. */
export class RecordReader {
  readonly #bytes: Buffer
  readonly #batch: BatchHeader
  #at = 0
  /** The end of the current record. */
  #end: number
  #lastDelta = -1

  constructor(bytes: Buffer, batch: BatchHeader) {
    this.#bytes = bytes
    this.#batch = batch
    this.#end = bytes.length
  }

  /** The next record and its offset; undefined if that is below `from`. Throws `MalformedRecord`. */
  next(from: number): { at: number; record: KafkaRecord } | undefined {
    const { offset, lastOffset, appendTime, baseTime, isControlRecord } = this.#batch
    this.#end = this.#bytes.length
    const length = this.#varint()
    const end = this.#at + length
    if (length < 0 || end > this.#bytes.length) throw new MalformedRecord()
    this.#end = end
    this.#skip(1)
    const timeDelta = this.#varlong()
    const delta = this.#varint()
    const at = offset + delta
    if (delta <= this.#lastDelta || at > lastOffset) throw new MalformedRecord()
    this.#lastDelta = delta
    if (at < from) {
      this.#at = end
      return undefined
    }
    const key = this.#nullableBytes()
    const value = this.#nullableBytes()
    const headers = this.#headers()
    if (this.#at !== end) throw new MalformedRecord()
    const timestamp = String(appendTime ?? sum(baseTime, timeDelta))
    return { at, record: { key, value, timestamp, offset: String(at), isControlRecord, headers } }
  }

  #skip(count: number): void {
    this.#at += count
    if (this.#at > this.#end) throw new MalformedRecord()
  }

  #byte(): number {
    if (this.#at >= this.#end) throw new MalformedRecord()
    return this.#bytes[this.#at++]!
  }

  /** A zigzag varint of 32 bits. */
  #varint(): number {
    let value = 0
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.#byte()
      value |= (byte & 127) << shift
      if (byte < 128) return (value >>> 1) ^ -(value & 1)
    }
    throw new MalformedRecord()
  }

  /** A zigzag varint of 64 bits; a number if it has few bytes. */
  #varlong(): number | bigint {
    const begin = this.#at
    let value = 0
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.#byte()
      value |= (byte & 127) << shift
      if (byte < 128) return (value >>> 1) ^ -(value & 1)
    }
    this.#at = begin
    let long = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#byte()
      long |= BigInt(byte & 127) << shift
      if (byte < 128) return BigInt.asIntN(64, (long >> 1n) ^ -(long & 1n))
    }
    throw new MalformedRecord()
  }

  #nullableBytes(): Buffer | null {
    const length = this.#varint()
    if (length === -1) return null
    if (length < 0) throw new MalformedRecord()
    const begin = this.#at
    this.#skip(length)
    return this.#bytes.subarray(begin, this.#at)
  }

  /** The headers of Instar by name; null for a name that occurs more than once. */
  #headers(): Record<string, Buffer | null> {
    const headers: Record<string, Buffer | null> = {}
    const count = this.#varint()
    if (count < 0 || count > this.#end - this.#at) throw new MalformedRecord()
    for (let i = 0; i < count; i++) {
      const key = this.#nullableBytes()
      const value = this.#nullableBytes()
      if (!key) throw new MalformedRecord()
      if (!key.subarray(0, OWN_HEADERS.length).equals(OWN_HEADERS)) continue
      const name = key.toString('utf8')
      headers[name] = Object.hasOwn(headers, name) ? null : value
    }
    return headers
  }
}
