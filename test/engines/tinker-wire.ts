/**
 * The server's side of the Tinker API's bytes, written apart from the client's: reads a ForwardBackwardRequest, writes a
 * ForwardBackwardOutput and a SampleResponse, packs an adapter as Python's tarfile does.
 */
import { gzipSync } from 'node:zlib'

type Datum = { tokens: number[]; inputs: Record<string, number[]> }
export type Pass = { model: string; seq: number; data: Datum[]; loss: string; config: string[]; forwardOnly: boolean }

class Cursor {
  at = 0
  readonly bytes: Buffer
  constructor(bytes: Uint8Array) {
    this.bytes = Buffer.from(bytes)
  }
  get more(): boolean {
    return this.at < this.bytes.length
  }
  varint(): number {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.bytes.readUInt8(this.at++)
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return Number(value)
    }
  }
  chunk(): Buffer {
    const length = this.varint()
    if (this.at + length > this.bytes.length) throw new Error('truncated message')
    this.at += length
    return this.bytes.subarray(this.at - length, this.at)
  }
  /** Calls `field` with the number of each field; it reads the content. */
  each(field: (number: number) => void): void {
    while (this.more) {
      const before = this.varint()
      field(before >> 3)
    }
  }
}

const int32s = (bytes: Buffer): number[] =>
  Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readInt32LE(4 * at))
const int64s = (bytes: Buffer): number[] =>
  Array.from({ length: bytes.length / 8 }, (_, at) => Number(bytes.readBigInt64LE(8 * at)))
const floats = (bytes: Buffer): number[] =>
  Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(4 * at))

const readTensor = (bytes: Buffer): number[] => {
  const cursor = new Cursor(bytes)
  let dense: Buffer = Buffer.alloc(0)
  let dtype = 0
  cursor.each((number) => {
    if (number === 1) dense = cursor.chunk()
    else if (number === 3) dtype = cursor.varint()
    else cursor.chunk()
  })
  if (dtype !== 1 && dtype !== 2) throw new Error(`Unsupported tensor dtype value in request: ${dtype}`)
  return dtype === 1 ? floats(dense) : int64s(dense)
}

const readDatum = (bytes: Buffer): Datum => {
  const datum: Datum = { tokens: [], inputs: {} }
  const cursor = new Cursor(bytes)
  cursor.each((number) => {
    const inner = new Cursor(cursor.chunk())
    if (number === 1)
      inner.each((chunk) => {
        if (chunk !== 1) throw new Error(`Unsupported model input chunk type: ${chunk}`)
        const text = new Cursor(inner.chunk())
        text.each(() => datum.tokens.push(...int32s(text.chunk())))
      })
    else if (number === 2) {
      let key = ''
      inner.each((part) => {
        if (part === 1) key = inner.chunk().toString('utf8')
        else datum.inputs[key] = readTensor(inner.chunk())
      })
    }
  })
  return datum
}

export const readPass = (bytes: Uint8Array): Pass => {
  const pass: Pass = { model: '', seq: 0, data: [], loss: '', config: [], forwardOnly: false }
  const cursor = new Cursor(bytes)
  cursor.each((number) => {
    if (number === 1) pass.model = cursor.chunk().toString('utf8')
    else if (number === 2) pass.seq = cursor.varint()
    else if (number === 3) pass.data.push(readDatum(cursor.chunk()))
    else if (number === 4) pass.loss = cursor.chunk().toString('utf8')
    else if (number === 6) pass.forwardOnly = cursor.varint() === 1
    else pass.config.push(cursor.chunk().toString('latin1'))
  })
  return pass
}

const number = (value: number): Buffer => {
  const bytes: number[] = []
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) {
      bytes.push(Number(rest))
      return Buffer.from(bytes)
    }
    bytes.push(Number(rest & 127n) | 128)
  }
}
const sized = (field: number, content: Uint8Array | string): Buffer => {
  const bytes = Buffer.from(content as Uint8Array)
  return Buffer.concat([number((field << 3) | 2), number(bytes.length), bytes])
}
const counted = (field: number, value: number): Buffer => Buffer.concat([number(field << 3), number(value)])
const double = (value: number): Buffer => {
  const bytes = Buffer.alloc(9)
  bytes[0] = (2 << 3) | 1
  bytes.writeDoubleLE(value, 1)
  return bytes
}
export const floatBytes = (values: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(4 * values.length)
  values.forEach((value, at) => bytes.writeFloatLE(value, 4 * at))
  return bytes
}

const batched = (rows: readonly (readonly number[])[]): Buffer => {
  const offsets = Buffer.alloc(8 * (rows.length + 1))
  let at = 0
  rows.forEach((row, index) => {
    at += 4 * row.length
    offsets.writeBigInt64LE(BigInt(at), 8 * (index + 1))
  })
  return Buffer.concat([sized(1, floatBytes(rows.flat())), sized(2, offsets), counted(3, 1)])
}

/** With `elementwise_loss` beside the log-probs, as SkyRL. */
export const writeOutput = (
  rows: readonly (readonly number[])[],
  metrics: Readonly<Record<string, number>>,
): Buffer => {
  const fields = ['elementwise_loss', 'logprobs'].map((name) =>
    sized(2, Buffer.concat([sized(1, name), sized(2, batched(rows))])),
  )
  return Buffer.concat([
    sized(1, 'scalar'),
    sized(2, Buffer.concat([...fields, counted(3, rows.length)])),
    ...Object.entries(metrics).map(([name, value]) => sized(3, Buffer.concat([sized(1, name), double(value)]))),
  ])
}

export const writeSample = (
  tokens: readonly number[],
  logprobs: readonly number[],
  prompt: readonly number[] | null,
): Buffer => {
  const ids = Buffer.alloc(4 * tokens.length)
  tokens.forEach((token, at) => ids.writeInt32LE(token, 4 * at))
  const sequence = Buffer.concat([counted(1, 1), sized(2, ids), sized(3, floatBytes(logprobs))])
  return Buffer.concat([sized(1, sequence), ...(prompt ? [sized(2, floatBytes(prompt))] : [])])
}

/** F32 tensors, header padded to eight bytes. */
export const writeSafetensors = (
  tensors: Readonly<Record<string, { shape: number[]; values: readonly number[] }>>,
): Buffer => {
  let at = 0
  const header: Record<string, unknown> = {}
  for (const [name, { shape, values }] of Object.entries(tensors)) {
    header[name] = { dtype: 'F32', shape, data_offsets: [at, at + 4 * values.length] }
    at += 4 * values.length
  }
  let text = JSON.stringify(header)
  while (text.length % 8 !== 0) text += ' '
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(text.length))
  return Buffer.concat([length, Buffer.from(text), ...Object.values(tensors).map(({ values }) => floatBytes(values))])
}

export type TarEntry = { name: string; bytes: Uint8Array; type?: string; pax?: Readonly<Record<string, string>> }

const block = (name: string, size: number, type: string): Buffer => {
  const header = Buffer.alloc(512)
  header.write(name.slice(0, 100), 0)
  header.write('0000644\0' + '0000000\0' + '0000000\0', 100)
  header.write(size.toString(8).padStart(11, '0') + '\0', 124)
  header.write('00000000000\0' + '        ' + type, 136)
  header.write('ustar\0' + '00', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(sum.toString(8).padStart(6, '0') + '\0 ', 148)
  return header
}

const padded = (bytes: Uint8Array): Buffer => Buffer.concat([bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)])

const paxRecord = (key: string, value: string): string => {
  const rest = ` ${key}=${value}\n`
  let length = Buffer.byteLength(rest) + 1
  while (length !== Buffer.byteLength(rest) + String(length).length) length += 1
  return `${length}${rest}`
}

/** Each entry behind a PAX header with its time, as Python's tarfile writes it. */
export const writeTar = (entries: readonly TarEntry[]): Buffer =>
  Buffer.concat([
    ...entries.flatMap(({ name, bytes, type = '0', pax = { mtime: '1790000000.5' } }) => {
      const records = Buffer.from(
        Object.entries(pax)
          .map(([key, value]) => paxRecord(key, value))
          .join(''),
      )
      return [
        block('././@PaxHeader', records.length, 'x'),
        padded(records),
        block(name, type === '0' ? bytes.length : 0, type),
        ...(type === '0' ? [padded(bytes)] : []),
      ]
    }),
    Buffer.alloc(1024),
  ])

export const packAdapter = (weights: Uint8Array, config: unknown): Buffer =>
  gzipSync(
    writeTar([
      { name: 'adapter_model.safetensors', bytes: weights },
      { name: 'adapter_config.json', bytes: Buffer.from(JSON.stringify(config)) },
    ]),
  )
