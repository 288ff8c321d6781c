/**
 * The safetensors format: a 64-bit little-endian header length, the JSON header
 * `{name: {dtype, shape, data_offsets: [begin, end]}}` (`end` exclusive), and the data. A file that violates the format
 * is refused before a tensor is read, with a `bad_checkpoint` that names the file and the tensor.
 * https://huggingface.co/docs/safetensors
 */
import type { InstarError } from '@instar/events/errors'
import { badCheckpoint } from './bad-checkpoint.ts'
import { isJsonObject } from '@instar/events/json'
import { decodeBF16, decodeF16, encodeBF16, encodeF16 } from './float16.ts'

const WIDTH = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  I16: 2,
  U16: 2,
  F16: 2,
  BF16: 2,
  I32: 4,
  U32: 4,
  F32: 4,
  F64: 8,
  I64: 8,
  U64: 8,
} as const
export type Dtype = keyof typeof WIDTH

/** Values of F32, F16 and BF16 are Float32Array (exact), of BOOL Uint8Array, of other dtypes their typed array. */
type TensorValues =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
export type Tensor = { dtype: Dtype; shape: readonly number[]; data: TensorValues }

/** Position of a tensor in the file; `begin` and `end` (exclusive) are offsets from the first byte of the file. */
export type TensorEntry = { dtype: Dtype; shape: readonly number[]; begin: number; end: number }
type SafetensorsHeader = { metadata: Map<string, string>; tensors: Map<string, TensorEntry> }

const MAX_HEADER = 25 * 1024 * 1024
const MAX_RANK = 16

function bad(file: string, problem: string, tensor?: string): InstarError {
  const where = tensor === undefined ? '' : `tensor ${JSON.stringify(tensor.slice(0, 200))}: `
  return badCheckpoint(file, `${where}${problem}`, tensor === undefined ? {} : { tensor })
}

/** Length of the header in bytes, from the first 8 bytes of a file of `fileSize` bytes. */
export function headerLength(start: Uint8Array, fileSize: number, file = 'safetensors'): number {
  if (start.length < 8 || fileSize < 8) throw bad(file, `has ${fileSize} bytes, which is too short for a header`)
  const length = new DataView(start.buffer, start.byteOffset, 8).getBigUint64(0, true)
  if (length > BigInt(MAX_HEADER)) throw bad(file, `the header has ${length} bytes; at most ${MAX_HEADER} are allowed`)
  if (Number(length) > fileSize - 8) throw bad(file, `the header has ${length} bytes, the whole file ${fileSize}`)
  return Number(length)
}

/** Throws for an object with two equal keys, at any depth; JSON.parse would silently use the last one. */
function refuseRepeatedKeys(text: string, file: string): void {
  const open: (Set<string> | null)[] = []
  const tokens = /"(?:[^"\\]|\\.)*"|[{}[\]]/g
  for (let match = tokens.exec(text); match; match = tokens.exec(text)) {
    const token = match[0]
    if (token === '{') open.push(new Set())
    else if (token === '[') open.push(null)
    else if (token === '}' || token === ']') open.pop()
    else {
      let next = tokens.lastIndex
      while (text.charCodeAt(next) <= 32) next++
      if (text[next] !== ':') continue
      const key = String(JSON.parse(token))
      const keys = open.at(-1)
      if (!keys) throw bad(file, 'header is not JSON')
      if (keys.has(key)) throw bad(file, `key ${JSON.stringify(key.slice(0, 200))} occurs twice in the header`)
      if (key === '__proto__' || key === 'constructor' || key === 'prototype')
        throw bad(file, `key ${JSON.stringify(key)} is not allowed`)
      keys.add(key)
    }
  }
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function readEntry(value: unknown, name: string, dataStart: number, fileSize: number, file: string): TensorEntry {
  if (!isJsonObject(value)) throw bad(file, 'is not an object', name)
  const { dtype, shape, data_offsets: offsets, ...rest } = value
  const unknown = Object.keys(rest)[0]
  if (unknown !== undefined) throw bad(file, `unknown field ${JSON.stringify(unknown.slice(0, 200))}`, name)
  if (typeof dtype !== 'string' || !Object.hasOwn(WIDTH, dtype))
    throw bad(
      file,
      typeof dtype === 'string'
        ? `dtype ${JSON.stringify(dtype.slice(0, 60))} is not supported`
        : 'dtype is not a string',
      name,
    )
  if (!Array.isArray(shape) || shape.length > MAX_RANK || !shape.every(isCount))
    throw bad(file, `shape is not an array of at most ${MAX_RANK} non-negative integers`, name)
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isCount))
    throw bad(file, 'data_offsets is not a pair of non-negative integers', name)
  const [begin, end] = offsets as [number, number]
  if (begin > end || end > fileSize - dataStart)
    throw bad(file, `data_offsets [${begin}, ${end}] are outside the ${fileSize - dataStart} bytes of data`, name)
  const width = WIDTH[dtype as Dtype]
  const size = shape.reduce<number>((product, n) => product * n, width)
  if (size !== end - begin)
    throw bad(file, `${dtype} [${shape.join(', ')}] has ${size} bytes; data_offsets span ${end - begin}`, name)
  return { dtype: dtype as Dtype, shape, begin: dataStart + begin, end: dataStart + end }
}

/**
 * `header`: the JSON header (`headerLength` bytes from byte 8). The tensors are returned in the order of their data.
 */
export function parseHeader(header: Uint8Array, fileSize: number, file = 'safetensors'): SafetensorsHeader {
  let parsed: unknown
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(header)
    parsed = JSON.parse(text)
  } catch (error) {
    throw badCheckpoint(file, 'header is not JSON', {}, error)
  }
  if (text[0] !== '{' || !isJsonObject(parsed)) throw bad(file, 'header is not a JSON object')
  refuseRepeatedKeys(text, file)
  const metadata = new Map<string, string>()
  const tensors: [string, TensorEntry][] = []
  for (const [name, value] of Object.entries(parsed)) {
    if (name !== '__metadata__') {
      tensors.push([name, readEntry(value, name, 8 + header.length, fileSize, file)])
      continue
    }
    if (!isJsonObject(value)) throw bad(file, '__metadata__ is not an object')
    for (const [key, entry] of Object.entries(value)) {
      if (typeof entry !== 'string')
        throw bad(file, `__metadata__ ${JSON.stringify(key.slice(0, 200))} is not a string`)
      metadata.set(key, entry)
    }
  }
  tensors.sort(([, a], [, b]) => a.begin - b.begin || a.end - b.end)
  let at = 8 + header.length
  for (const [name, entry] of tensors) {
    if (entry.begin !== at)
      throw bad(
        file,
        entry.begin < at ? 'overlaps the previous tensor' : `follows ${entry.begin - at} unused bytes`,
        name,
      )
    at = entry.end
  }
  if (at !== fileSize) throw bad(file, `${fileSize - at} bytes follow the last tensor`)
  return { metadata, tensors: new Map(tensors) }
}

/** `bytes` are the tensor's own (end - begin). The result may be a view of them when they are aligned. */
export function decodeTensor(entry: TensorEntry, bytes: Uint8Array): Tensor {
  const width = WIDTH[entry.dtype]
  const own = bytes.byteOffset % width === 0 ? bytes : bytes.slice()
  const length = own.byteLength / width
  const at = [own.buffer, own.byteOffset, length] as const
  const { dtype, shape } = entry
  switch (dtype) {
    case 'F32':
      return { dtype, shape, data: new Float32Array(...at) }
    case 'F16':
      return { dtype, shape, data: decodeF16(new Uint16Array(...at)) }
    case 'BF16':
      return { dtype, shape, data: decodeBF16(new Uint16Array(...at)) }
    case 'F64':
      return { dtype, shape, data: new Float64Array(...at) }
    case 'I8':
      return { dtype, shape, data: new Int8Array(...at) }
    case 'BOOL':
    case 'U8':
      return { dtype, shape, data: new Uint8Array(...at) }
    case 'I16':
      return { dtype, shape, data: new Int16Array(...at) }
    case 'U16':
      return { dtype, shape, data: new Uint16Array(...at) }
    case 'I32':
      return { dtype, shape, data: new Int32Array(...at) }
    case 'U32':
      return { dtype, shape, data: new Uint32Array(...at) }
    case 'I64':
      return { dtype, shape, data: new BigInt64Array(...at) }
    case 'U64':
      return { dtype, shape, data: new BigUint64Array(...at) }
  }
}

/** The tensors of a whole file. `file`: its name in errors. */
export function readSafetensors(bytes: Uint8Array, file = 'safetensors'): Map<string, Tensor> {
  return readSafetensorsWithMetadata(bytes, file).tensors
}

export function readSafetensorsWithMetadata(
  bytes: Uint8Array,
  file = 'safetensors',
): { metadata: Map<string, string>; tensors: Map<string, Tensor> } {
  const length = headerLength(bytes, bytes.length, file)
  const { metadata, tensors } = parseHeader(bytes.subarray(8, 8 + length), bytes.length, file)
  const out = new Map<string, Tensor>()
  for (const [name, entry] of tensors) out.set(name, decodeTensor(entry, bytes.subarray(entry.begin, entry.end)))
  return { metadata, tensors: out }
}

function encodeTensor(name: string, tensor: Tensor): Uint8Array {
  const { dtype, data } = tensor
  const size = tensor.shape.reduce((product, n) => product * n, 1)
  if (data.length !== size)
    throw bad('safetensors', `shape [${tensor.shape.join(', ')}] has ${size} values, the data ${data.length}`, name)
  const stored =
    data instanceof Float32Array && dtype === 'F16'
      ? encodeF16(data)
      : data instanceof Float32Array && dtype === 'BF16'
        ? encodeBF16(data)
        : data
  if (stored.BYTES_PER_ELEMENT !== WIDTH[dtype])
    throw bad('safetensors', `dtype ${dtype} cannot be written from a ${data.constructor.name}`, name)
  return new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength)
}

/** Compares by code unit, independently of the locale. */
function byName(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/**
 * Equal tensors and metadata give equal bytes: tensors are sorted by descending width of the dtype (which aligns each
 * to its width) and then by name, metadata by key. The header is padded with spaces to a multiple of 8 bytes.
 */
export function writeSafetensors(
  tensors: ReadonlyMap<string, Tensor>,
  metadata: ReadonlyMap<string, string> = new Map(),
): Uint8Array {
  const sorted = [...tensors].sort(([a, x], [b, y]) => WIDTH[y.dtype] - WIDTH[x.dtype] || byName(a, b))
  const parts = sorted.map(([name, tensor]) => encodeTensor(name, tensor))
  const header: [string, unknown][] = []
  if (metadata.size > 0)
    header.push(['__metadata__', Object.fromEntries([...metadata].sort(([a], [b]) => byName(a, b)))])
  let at = 0
  for (const [i, [name, tensor]] of sorted.entries()) {
    if (name === '__metadata__') throw bad('safetensors', 'the name is reserved', name)
    const end = at + parts[i]!.length
    header.push([name, { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [at, end] }])
    at = end
  }
  // Not Object.fromEntries, which would move integer-like names to the front.
  const json = new TextEncoder().encode(
    `{${header.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`,
  )
  const length = Math.ceil(json.length / 8) * 8
  const out = new Uint8Array(8 + length + at)
  new DataView(out.buffer).setBigUint64(0, BigInt(length), true)
  out.set(json, 8)
  out.fill(0x20, 8 + json.length, 8 + length)
  let offset = 8 + length
  for (const part of parts) {
    out.set(part, offset)
    offset += part.length
  }
  return out
}
