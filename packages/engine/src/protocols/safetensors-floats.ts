/**
 * The tensors of an adapter's safetensors file as bytes: a 64-bit little-endian header length, the JSON header
 * `{name: {dtype, shape, data_offsets: [begin, end]}}`, the data. The file is one that `AdapterFiles` wrote.
 * https://huggingface.co/docs/safetensors
 */
import { isJsonObject } from '@instar/events/json'

const WIDTH = { F32: 4, F16: 2, BF16: 2 } as const
type FloatType = keyof typeof WIDTH

/** `bytes`: little-endian, of this dtype and shape without gaps; a view of the file. */
export type FloatTensor = { dtype: FloatType; shape: readonly number[]; bytes: Uint8Array }

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** Throws an Error for a tensor that is not F32, F16 or BF16, or whose bytes are not those of its shape. */
export const tensorsOf = (file: Uint8Array): Map<string, FloatTensor> => {
  const from = 8 + Number(new DataView(file.buffer, file.byteOffset, 8).getBigUint64(0, true))
  const header: unknown = JSON.parse(new TextDecoder().decode(file.subarray(8, from)))
  if (!isJsonObject(header)) throw new Error('the adapter has no header')
  return new Map(
    Object.entries(header)
      .filter(([name]) => name !== '__metadata__')
      .map(([name, value]) => {
        const { dtype, shape, data_offsets: place } = isJsonObject(value) ? value : {}
        if (dtype !== 'F32' && dtype !== 'F16' && dtype !== 'BF16')
          throw new Error(`${name} is ${String(dtype)}, not F32, F16 or BF16`)
        if (!Array.isArray(shape) || !shape.every(isCount) || !Array.isArray(place) || !place.every(isCount))
          throw new Error(`${name} has no shape or no place`)
        const bytes = file.subarray(from + place[0]!, from + place[1]!)
        if (bytes.length !== shape.reduce((product, n) => product * n, WIDTH[dtype]))
          throw new Error(`${name} has ${bytes.length} bytes, not those of its shape`)
        return [name, { dtype, shape, bytes }]
      }),
  )
}
