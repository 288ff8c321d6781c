/**
 * The GGUF format (versions 2 and 3, little-endian): metadata, the table of tensors, and tensors of the types f32, f16,
 * bf16, q8_0, q4_0 and q4_1. A file that violates the format is refused with `bad_checkpoint` before a tensor is read.
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
import { badCheckpoint } from './bad-checkpoint.ts'
import { PACKED_BLOCK, type PackedTensor } from '../weights.ts'
import { decodeBF16, decodeF16, f16ToF32 } from './float16.ts'

export type GgufValue = number | bigint | boolean | string | GgufValue[]
/**
 * `shape` is row-major; GGUF stores the dimensions in the opposite order. `begin` and `end` (exclusive) are offsets
 * from the first byte of the file.
 */
export type GgufTensor = { type: GgufType; shape: number[]; begin: number; end: number }
export type Gguf = { metadata: Map<string, GgufValue>; tensors: Map<string, GgufTensor> }
type GgufType = 'f32' | 'f16' | 'bf16' | 'q8_0' | 'q4_0' | 'q4_1'

/** By ggml type number: name, values per block, bytes per block. */
const TYPES = new Map<number, { name: GgufType; block: number; bytes: number }>([
  [0, { name: 'f32', block: 1, bytes: 4 }],
  [1, { name: 'f16', block: 1, bytes: 2 }],
  [2, { name: 'q4_0', block: 32, bytes: 18 }],
  [3, { name: 'q4_1', block: 32, bytes: 20 }],
  [8, { name: 'q8_0', block: 32, bytes: 34 }],
  [30, { name: 'bf16', block: 1, bytes: 2 }],
])
const MAX_ARRAY = 1 << 24
const MAX_TENSORS = 1 << 16
const MAX_STRING = 1 << 24

function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 200))
}

/**
 * Reads values in order. At the end of the bytes it throws with `truncated: true`, so that the caller can read more.
 */
class Cursor {
  at = 0
  private readonly bytes: Uint8Array
  private readonly view: DataView
  private readonly file: string
  private readonly text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

  constructor(bytes: Uint8Array, file: string) {
    this.bytes = bytes
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.file = file
  }

  /** Advances by `size` bytes and returns the offset of the first one. */
  take(size: number): number {
    const from = this.at
    if (size > this.bytes.length - from)
      throw badCheckpoint(this.file, `ends at byte ${this.bytes.length}, inside its header`, { truncated: true })
    this.at = from + size
    return from
  }

  remaining(): number {
    return this.bytes.length - this.at
  }
  u32(): number {
    return this.view.getUint32(this.take(4), true)
  }

  count(limit: number, what: string): number {
    const value = this.view.getBigUint64(this.take(8), true)
    if (value > BigInt(limit)) throw badCheckpoint(this.file, `${what} is ${value}; at most ${limit} is allowed`)
    return Number(value)
  }

  string(what: string): string {
    const length = this.count(MAX_STRING, `length of ${what}`)
    const from = this.take(length)
    try {
      return this.text.decode(this.bytes.subarray(from, from + length))
    } catch (error) {
      throw badCheckpoint(this.file, `${what} is not UTF-8`, {}, error)
    }
  }

  scalar(type: number, what: string): GgufValue {
    switch (type) {
      case 0:
        return this.view.getUint8(this.take(1))
      case 1:
        return this.view.getInt8(this.take(1))
      case 2:
        return this.view.getUint16(this.take(2), true)
      case 3:
        return this.view.getInt16(this.take(2), true)
      case 4:
        return this.view.getUint32(this.take(4), true)
      case 5:
        return this.view.getInt32(this.take(4), true)
      case 6:
        return this.view.getFloat32(this.take(4), true)
      case 7: {
        const value = this.view.getUint8(this.take(1))
        if (value > 1) throw badCheckpoint(this.file, `${what} is a boolean with the value ${value}`)
        return value === 1
      }
      case 8:
        return this.string(what)
      case 10:
        return this.view.getBigUint64(this.take(8), true)
      case 11:
        return this.view.getBigInt64(this.take(8), true)
      case 12:
        return this.view.getFloat64(this.take(8), true)
      default:
        throw badCheckpoint(this.file, `${what} has the unknown value type ${type}`)
    }
  }

  value(type: number, what: string): GgufValue {
    if (type !== 9) return this.scalar(type, what)
    const elementType = this.u32()
    const length = this.count(MAX_ARRAY, `length of ${what}`)
    const values: GgufValue[] = []
    for (let i = 0; i < length; i++) values.push(this.scalar(elementType, what))
    return values
  }
}

function readTensor(
  cursor: Cursor,
  file: string,
): { name: string; type: GgufType; shape: number[]; offset: number; size: number } {
  const name = cursor.string('a tensor name')
  const rank = cursor.u32()
  if (rank > 4)
    throw badCheckpoint(file, `tensor ${quoted(name)} has ${rank} dimensions; at most 4 are allowed`, { tensor: name })
  const dims: number[] = []
  for (let i = 0; i < rank; i++) dims.push(cursor.count(2 ** 40, `dimension ${i} of tensor ${quoted(name)}`))
  const typeNumber = cursor.u32()
  const type = TYPES.get(typeNumber)
  if (!type)
    throw badCheckpoint(
      file,
      `tensor ${quoted(name)} has ggml type ${typeNumber}, which is not supported; use a file of type f32, f16, bf16, q8_0, q4_0 or q4_1`,
      { tensor: name },
    )
  const offset = cursor.count(2 ** 50, `offset of tensor ${quoted(name)}`)
  const values = dims.reduce((product, n) => product * n, 1)
  if ((dims[0] ?? 1) % type.block !== 0)
    throw badCheckpoint(
      file,
      `tensor ${quoted(name)} has rows of ${dims[0]} values, not a multiple of its blocks of ${type.block}`,
      {
        tensor: name,
      },
    )
  return { name, type: type.name, shape: dims.reverse(), offset, size: (values / type.block) * type.bytes }
}

/**
 * `bytes`: the file, or a prefix of it that contains the whole header. `fileSize`: length of the whole file in bytes.
 */
export function parseGguf(bytes: Uint8Array, fileSize: number, file = 'gguf'): Gguf {
  const cursor = new Cursor(bytes, file)
  if (cursor.u32() !== 0x46554747) throw badCheckpoint(file, 'is not a GGUF file')
  const version = cursor.u32()
  if (version !== 2 && version !== 3) throw badCheckpoint(file, `GGUF version ${version} is not supported`)
  const tensorCount = cursor.count(MAX_TENSORS, 'number of tensors')
  const pairCount = cursor.count(MAX_TENSORS, 'number of metadata entries')
  const metadata = new Map<string, GgufValue>()
  for (let i = 0; i < pairCount; i++) {
    const key = cursor.string('a metadata key')
    if (metadata.has(key)) throw badCheckpoint(file, `metadata key ${quoted(key)} occurs twice`)
    metadata.set(key, cursor.value(cursor.u32(), `metadata ${quoted(key)}`))
  }
  const table = new Map<string, ReturnType<typeof readTensor>>()
  for (let i = 0; i < tensorCount; i++) {
    const tensor = readTensor(cursor, file)
    if (table.has(tensor.name))
      throw badCheckpoint(file, `tensor ${quoted(tensor.name)} occurs twice`, { tensor: tensor.name })
    table.set(tensor.name, tensor)
  }
  const alignment = metadata.get('general.alignment') ?? 32
  if (
    typeof alignment !== 'number' ||
    !Number.isInteger(alignment) ||
    alignment < 8 ||
    alignment > 65536 ||
    alignment % 8 !== 0
  )
    throw badCheckpoint(file, 'metadata general.alignment is not a multiple of 8 from 8 to 65536')
  const dataStart = Math.ceil(cursor.at / alignment) * alignment
  const tensors = new Map<string, GgufTensor>()
  let free = dataStart
  for (const { name, type, shape, offset, size } of [...table.values()].sort(
    (a, b) => a.offset - b.offset || a.size - b.size,
  )) {
    const begin = dataStart + offset
    if (offset % alignment !== 0)
      throw badCheckpoint(file, `tensor ${quoted(name)} is not aligned to ${alignment} bytes`, { tensor: name })
    if (begin < free) throw badCheckpoint(file, `tensor ${quoted(name)} overlaps the previous tensor`, { tensor: name })
    if (begin + size > fileSize)
      throw badCheckpoint(file, `tensor ${quoted(name)} ends at byte ${begin + size}; the file has ${fileSize} bytes`, {
        tensor: name,
      })
    free = begin + size
    tensors.set(name, { type, shape, begin, end: begin + size })
  }
  return { metadata, tensors }
}

/** The values of a tensor in file order, rounded to float32 once. `bytes`: its data. Block layouts: ggml-quants.h. */
export function dequantise(type: GgufType, bytes: Uint8Array): Float32Array {
  const own = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice()
  const { buffer, byteOffset, byteLength } = own
  switch (type) {
    case 'f32':
      return new Float32Array(buffer, byteOffset, byteLength / 4)
    case 'f16':
      return decodeF16(new Uint16Array(buffer, byteOffset, byteLength / 2))
    case 'bf16':
      return decodeBF16(new Uint16Array(buffer, byteOffset, byteLength / 2))
    case 'q8_0':
      return dequantiseQ8(own)
    case 'q4_0':
      return dequantiseQ4(own, 18)
    case 'q4_1':
      return dequantiseQ4(own, 20)
  }
}

/** Blocks of an f16 scale d and 32 signed bytes q; the values are d·q. */
function dequantiseQ8(bytes: Uint8Array): Float32Array {
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const blocks = bytes.length / 34
  const out = new Float32Array(blocks * 32)
  for (let block = 0, at = 0, to = 0; block < blocks; block++, at += 34) {
    const d = f16ToF32(bytes[at]! | (bytes[at + 1]! << 8))
    for (let i = 0; i < 32; i++) out[to++] = d * signed[at + 2 + i]!
  }
  return out
}

/**
 * Blocks of an f16 scale d, for q4_1 an f16 minimum m, and 32 four-bit codes q: values 0 to 15 in the low, 16 to 31 in
 * the high four bits. Blocks of 18 bytes (q4_0) have the values d·(q − 8), blocks of 20 bytes (q4_1) d·q + m. These are
 * exact in float64 and rounded once, to float32.
 */
function dequantiseQ4(bytes: Uint8Array, width: 18 | 20): Float32Array {
  const blocks = bytes.length / width
  const out = new Float32Array(blocks * 32)
  for (let block = 0, at = 0; block < blocks; block++, at += width) {
    const d = f16ToF32(bytes[at]! | (bytes[at + 1]! << 8))
    const m = width === 20 ? f16ToF32(bytes[at + 2]! | (bytes[at + 3]! << 8)) : -8 * d
    for (let i = 0; i < 16; i++) {
      const pair = bytes[at + width - 16 + i]!
      out[block * 32 + i] = d * (pair & 15) + m
      out[block * 32 + 16 + i] = d * (pair >> 4) + m
    }
  }
  return out
}

/** The blocks of a q4_1 matrix [out, in], with the codes of two neighbouring inputs per byte (weights.ts). */
export function packQ4(bytes: Uint8Array, shape: readonly [number, number]): PackedTensor {
  const blocks = (shape[0] * shape[1]) / PACKED_BLOCK
  const codes = new Uint8Array(blocks * 16)
  const scales = new Float32Array(blocks)
  const minima = new Float32Array(blocks)
  for (let block = 0, at = 0; block < blocks; block++, at += 20) {
    scales[block] = f16ToF32(bytes[at]! | (bytes[at + 1]! << 8))
    minima[block] = f16ToF32(bytes[at + 2]! | (bytes[at + 3]! << 8))
    for (let i = 0; i < 8; i++) {
      const even = bytes[at + 4 + 2 * i]!
      const odd = bytes[at + 5 + 2 * i]!
      codes[block * 16 + i] = (even & 15) | ((odd & 15) << 4)
      codes[block * 16 + 8 + i] = (even >> 4) | (odd & 240)
    }
  }
  return { shape, codes, scales, minima }
}
