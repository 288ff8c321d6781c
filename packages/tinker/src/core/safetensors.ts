/**
 * The safetensors files of adapters: a 64-bit length, a JSON header {name: {dtype, shape, data_offsets}}, the data. Read
 * strictly, and written with sorted names, so that equal tensors give equal bytes.
 * https://huggingface.co/docs/safetensors
 */
import { InstarError } from '@instar/events/errors'
import { isJsonObject, parseJsonObject } from '@instar/events/json'
import { contentSha } from '@instar/events/ids'

const WIDTHS = { F64: 8, F32: 4, F16: 2, BF16: 2 } as const
export type Dtype = keyof typeof WIDTHS
export type Tensor = { dtype: Dtype; shape: readonly number[]; bytes: Uint8Array }

const HEADER_BYTES_MAX = 25 << 20
const TENSORS_MAX = 100_000
const DIMENSIONS_MAX = 16

export const badAdapter = (problem: string): InstarError => new InstarError('bad_checkpoint', `adapter: ${problem}`)
const named = (name: string): string => `tensor ${JSON.stringify(name.slice(0, 200))}`

const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
const areCounts = (value: unknown): value is number[] => Array.isArray(value) && value.every(isCount)

/** The tensors in the order of their data. */
export const readTensors = (file: Uint8Array): Map<string, Tensor> => {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength)
  if (file.length < 8) throw badAdapter(`the weights have ${file.length} bytes`)
  const length = Number(view.getBigUint64(0, true))
  if (length > HEADER_BYTES_MAX || length > file.length - 8)
    throw badAdapter(`the header has ${length} bytes, the file ${file.length}`)
  const header = parseJsonObject(Buffer.from(file.buffer, file.byteOffset + 8, length).toString('utf8'))
  if (!header) throw badAdapter('the header is not a JSON object')
  const data = file.subarray(8 + length)
  const entries = Object.entries(header).filter(([name]) => name !== '__metadata__')
  if (entries.length > TENSORS_MAX) throw badAdapter(`${entries.length} tensors`)
  const tensors = entries.map(([name, entry]) => {
    const { dtype, shape, data_offsets: offsets } = isJsonObject(entry) ? entry : {}
    if (typeof dtype !== 'string' || !Object.hasOwn(WIDTHS, dtype))
      throw badAdapter(`${named(name)} has the dtype ${JSON.stringify(dtype)?.slice(0, 60)}`)
    if (!areCounts(shape) || shape.length > DIMENSIONS_MAX || !areCounts(offsets) || offsets.length !== 2)
      throw badAdapter(`${named(name)} has no valid shape or offsets`)
    const [begin = 0, end = 0] = offsets
    const size = shape.reduce((product, count) => product * count, WIDTHS[dtype as Dtype])
    if (end > data.length || end - begin !== size)
      throw badAdapter(`${named(name)} has ${size} bytes; its offsets are ${begin} to ${end} of ${data.length}`)
    return { name, begin, end, tensor: { dtype: dtype as Dtype, shape, bytes: data.subarray(begin, end) } }
  })
  let at = 0
  for (const { name, begin, end } of tensors.sort((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (begin !== at) throw badAdapter(`${named(name)} begins at byte ${begin}; the previous one ends at ${at}`)
    at = end
  }
  if (at !== data.length) throw badAdapter(`${data.length - at} bytes follow the last tensor`)
  return new Map(tensors.map(({ name, tensor }) => [name, tensor]))
}

const sorted = (tensors: ReadonlyMap<string, Tensor>): [string, Tensor][] =>
  [...tensors].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))

export const writeTensors = (
  tensors: ReadonlyMap<string, Tensor>,
  metadata: Readonly<Record<string, string>>,
): Uint8Array => {
  const entries = sorted(tensors)
  let at = 0
  const header = Object.fromEntries(
    entries.map(([name, { dtype, shape, bytes }]) => {
      const begin = at
      at += bytes.length
      return [name, { dtype, shape, data_offsets: [begin, at] }]
    }),
  )
  const text = JSON.stringify({ __metadata__: metadata, ...header })
  const padded = Buffer.from(text.padEnd(text.length + ((8 - (Buffer.byteLength(text) % 8)) % 8), ' '))
  const start = Buffer.alloc(8)
  start.writeBigUInt64LE(BigInt(padded.length))
  return Buffer.concat([start, padded, ...entries.map(([, { bytes }]) => bytes)])
}

/** Hex sha256 of the lines `NAME DTYPE [SHAPE] SHA256\n` of the tensors, sorted by name; independent of the file around. */
export const tensorsDigest = (tensors: ReadonlyMap<string, Tensor>): string => {
  const lines = sorted(tensors).map(
    ([name, { dtype, shape, bytes }]) => `${name} ${dtype} [${shape.join(',')}] ${contentSha(bytes)}\n`,
  )
  return contentSha(new TextEncoder().encode(lines.join('')))
}
