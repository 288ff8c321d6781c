/**
 * Conversion between float32 and IEEE binary16 or bfloat16. Decoding is exact. Encoding rounds to nearest, ties to even
 * (IEEE 754-2019, section 4.3.1); overflow gives infinity, and NaN stays NaN.
 */

const scratchF32 = new Float32Array(1)
const scratchU32 = new Uint32Array(scratchF32.buffer)

/** The float32 values of all 65536 binary16 codes (256 KiB); computed at the first use. */
let table: Float32Array | null = null

function binary16Table(): Float32Array {
  if (table) return table
  const values = new Float32Array(65536)
  for (let h = 0; h < 65536; h++) {
    const sign = h & 0x8000 ? -1 : 1
    const exponent = (h >> 10) & 31
    const fraction = h & 1023
    if (exponent === 31) values[h] = fraction ? NaN : sign * Infinity
    else if (exponent === 0) values[h] = sign * fraction * 2 ** -24
    else values[h] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
  }
  return (table = values)
}

export function f16ToF32(bits: number): number {
  return binary16Table()[bits & 0xffff] ?? NaN
}

export function decodeF16(bits: Uint16Array): Float32Array {
  const values = binary16Table()
  const out = new Float32Array(bits.length)
  for (let i = 0; i < bits.length; i++) out[i] = values[bits[i]!]!
  return out
}

export function decodeBF16(bits: Uint16Array): Float32Array {
  const words = new Uint32Array(bits.length)
  for (let i = 0; i < bits.length; i++) words[i] = bits[i]! << 16
  return new Float32Array(words.buffer)
}

export function f32ToF16(value: number): number {
  scratchF32[0] = value
  const bits = scratchU32[0]!
  const sign = (bits >>> 16) & 0x8000
  const exponent = (bits >>> 23) & 255
  const fraction = bits & 0x7fffff
  if (exponent === 255) return sign | 0x7c00 | (fraction ? 0x200 : 0)
  const e = exponent - 127 + 15
  if (e >= 31) return sign | 0x7c00
  // A subnormal result: the significand with its implicit leading bit is shifted right and rounded.
  const significand = e > 0 ? (e << 23) | fraction : fraction | 0x800000
  const shift = e > 0 ? 13 : 14 - e
  if (shift > 24) return sign
  const truncated = significand >>> shift
  const remainder = significand & ((1 << shift) - 1)
  const half = 1 << (shift - 1)
  return sign | (truncated + (remainder > half || (remainder === half && (truncated & 1) === 1) ? 1 : 0))
}

export function encodeF16(values: Float32Array): Uint16Array {
  return Uint16Array.from(values, f32ToF16)
}

export function encodeBF16(values: Float32Array): Uint16Array {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length)
  const out = new Uint16Array(values.length)
  for (let i = 0; i < out.length; i++) {
    const bits = words[i]!
    out[i] = (bits & 0x7fffffff) > 0x7f800000 ? (bits >>> 16) | 0x40 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16
  }
  return out
}
