/**
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4, reflected polynomial 0x82f63b78), eight bytes per step ("slicing by 8").
 */

/** `TABLES[n][b]`: the checksum of byte `b` followed by `n` zero bytes. */
const TABLES = Array.from({ length: 8 }, () => new Int32Array(256))
for (let byte = 0; byte < 256; byte++) {
  let sum = byte
  for (let bit = 0; bit < 8; bit++) sum = (sum & 1) === 1 ? (sum >>> 1) ^ 0x82f63b78 : sum >>> 1
  TABLES[0]![byte] = sum
}
for (let n = 1; n < 8; n++) {
  for (let byte = 0; byte < 256; byte++) {
    const shorter = TABLES[n - 1]![byte]!
    TABLES[n]![byte] = (shorter >>> 8) ^ TABLES[0]![shorter & 255]!
  }
}
const [T0, T1, T2, T3, T4, T5, T6, T7] = TABLES as [
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
]

/** The unsigned checksum of the bytes from `start` (inclusive) to `end` (exclusive). */
export const crc32c = (bytes: Uint8Array, start = 0, end = bytes.length): number => {
  let sum = -1
  let at = start
  for (const last = end - 7; at < last; at += 8) {
    sum ^= bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    sum =
      T7[sum & 255]! ^
      T6[(sum >>> 8) & 255]! ^
      T5[(sum >>> 16) & 255]! ^
      T4[sum >>> 24]! ^
      T3[bytes[at + 4]!]! ^
      T2[bytes[at + 5]!]! ^
      T1[bytes[at + 6]!]! ^
      T0[bytes[at + 7]!]!
  }
  for (; at < end; at++) sum = T0[(sum ^ bytes[at]!) & 255]! ^ (sum >>> 8)
  return ~sum >>> 0
}
