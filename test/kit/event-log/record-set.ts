/** Bytes of record batches, as a broker returns them, for tests with a simulated one. */
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { crc32c } from '../../../packages/log/src/kafka/crc32c.ts'

const varint = (value: number | bigint): Buffer => {
  const bytes: number[] = []
  const signed = BigInt(value)
  let rest = signed < 0n ? -2n * signed - 1n : 2n * signed
  for (; rest >= 128n; rest /= 128n) bytes.push(Number(rest % 128n) | 128)
  return Buffer.from([...bytes, Number(rest)])
}

const withLength = (bytes: Buffer | null): Buffer =>
  bytes === null ? varint(-1) : Buffer.concat([varint(bytes.length), bytes])

type Header = readonly [name: string, value: Buffer | null]
export type SetRecord = {
  key?: Buffer | null
  value?: Buffer | null
  headers?: readonly Header[]
  timeDelta?: number | bigint
  /** Default: the index. */
  offsetDelta?: number
}

const CODECS = {
  none: [0, (bytes: Buffer): Buffer => bytes],
  gzip: [1, (bytes: Buffer): Buffer => gzipSync(bytes, { level: 1 })],
  lz4: [3, (bytes: Buffer): Buffer => bytes],
  zstd: [4, (bytes: Buffer): Buffer => zstdCompressSync(bytes)],
} as const

export type BatchOptions = {
  codec?: keyof typeof CODECS
  baseTime?: bigint
  /** The time of all records, given by the broker. */
  appendTime?: bigint
  control?: boolean
  /** Default: that of the last record. */
  lastDelta?: number
  /** Default: the number of records. */
  count?: number
}

const recordBytes = ({ key = null, value = null, headers = [], timeDelta = 0 }: SetRecord, delta: number): Buffer => {
  const body = Buffer.concat([
    Buffer.from([0]),
    varint(timeDelta),
    varint(delta),
    withLength(key),
    withLength(value),
    varint(headers.length),
    ...headers.flatMap(([name, bytes]) => [withLength(Buffer.from(name)), withLength(bytes)]),
  ])
  return Buffer.concat([varint(body.length), body])
}

/** A batch whose first offset is `offset`. */
export const batchBytes = (offset: number, records: readonly SetRecord[], options: BatchOptions = {}): Buffer => {
  const { codec = 'none', baseTime = 1n, appendTime, control = false } = options
  const [code, pack] = CODECS[codec]
  const deltas = records.map(({ offsetDelta }, i) => offsetDelta ?? i)
  const body = pack(Buffer.concat(records.map((record, i) => recordBytes(record, deltas[i]!))))
  const batch = Buffer.alloc(61 + body.length)
  body.copy(batch, 61)
  batch.writeBigInt64BE(BigInt(offset), 0)
  batch.writeInt32BE(batch.length - 12, 8)
  batch[16] = 2
  batch.writeInt16BE(code | (appendTime === undefined ? 0 : 0x08) | (control ? 0x20 : 0), 21)
  batch.writeInt32BE(options.lastDelta ?? deltas.at(-1) ?? 0, 23)
  batch.writeBigInt64BE(baseTime, 27)
  batch.writeBigInt64BE(appendTime ?? baseTime, 35)
  batch.writeInt32BE(options.count ?? records.length, 57)
  return withChecksum(batch)
}

/** Sets the checksum of a batch, in place. */
export const withChecksum = (batch: Buffer): Buffer => {
  batch.writeUInt32BE(crc32c(batch, 21), 17)
  return batch
}
