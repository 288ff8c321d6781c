/** Arrays as the Tinker API sends them: little-endian bytes, one value after another. */

export const int32Bytes = (values: readonly number[]): Uint8Array => {
  const bytes = new Uint8Array(4 * values.length)
  const view = new DataView(bytes.buffer)
  values.forEach((value, index) => view.setInt32(4 * index, value, true))
  return bytes
}

export const int64Bytes = (values: readonly number[]): Uint8Array => {
  const bytes = new Uint8Array(8 * values.length)
  const view = new DataView(bytes.buffer)
  values.forEach((value, index) => view.setBigInt64(8 * index, BigInt(value), true))
  return bytes
}

export const float32Bytes = (values: readonly number[]): Uint8Array => {
  const bytes = new Uint8Array(4 * values.length)
  const view = new DataView(bytes.buffer)
  values.forEach((value, index) => view.setFloat32(4 * index, value, true))
  return bytes
}

export const float32Values = (bytes: Uint8Array): Float32Array => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return Float32Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(4 * index, true))
}

/** bfloat16 is the upper half of a float32. */
export const bfloat16Values = (bytes: Uint8Array): Float32Array => {
  const widened = new Uint8Array(2 * bytes.length)
  for (let at = 0; at < bytes.length; at += 2) widened.set(bytes.subarray(at, at + 2), 2 * at + 2)
  return float32Values(widened)
}

/** Values beyond 2^53 are not exact. */
export const int64Values = (bytes: Uint8Array): number[] => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return Array.from({ length: bytes.length / 8 }, (_, index) => Number(view.getBigInt64(8 * index, true)))
}
