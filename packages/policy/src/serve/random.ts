/**
 * Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 * A number depends on (seed, index) only, so the tokens of a row do not depend on the other rows of its batch.
 */

const M0 = 0xd2511f53
const M1 = 0xcd9e8d57
const W0 = 0x9e3779b9
const W1 = 0xbb67ae85

/** High and low 32-bit word of the product of two 32-bit words. */
function multiply(a: number, b: number): [number, number] {
  const aHigh = a >>> 16
  const aLow = a & 0xffff
  const bHigh = b >>> 16
  const bLow = b & 0xffff
  const low = aLow * bLow
  const cross = aHigh * bLow + (low >>> 16)
  const middle = aLow * bHigh + (cross & 0xffff)
  const high = aHigh * bHigh + Math.floor(cross / 65536) + Math.floor(middle / 65536)
  return [high >>> 0, Math.imul(a, b) >>> 0]
}

/** Ten rounds on a counter of four 32-bit words with a key of two. */
export function philox(
  counter: readonly [number, number, number, number],
  key: readonly [number, number],
): [number, number, number, number] {
  let [c0, c1, c2, c3] = counter
  let [k0, k1] = key
  for (let round = 0; round < 10; round++) {
    const [high0, low0] = multiply(M0, c0)
    const [high1, low1] = multiply(M1, c2)
    c0 = (high1 ^ c1 ^ k0) >>> 0
    c1 = low1
    c2 = (high0 ^ c3 ^ k1) >>> 0
    c3 = low0
    k0 = (k0 + W0) >>> 0
    k1 = (k1 + W1) >>> 0
  }
  return [c0, c1, c2, c3]
}

/** Uniform in [0, 1), with 53 random bits. `seed`: a safe integer. */
export function uniform(seed: number, index: number): number {
  const whole = BigInt.asUintN(64, BigInt(Math.trunc(seed)))
  const [a, b] = philox([index >>> 0, 0, 0, 0], [Number(whole & 0xffffffffn), Number(whole >> 32n)])
  return ((a >>> 5) * 67108864 + (b >>> 6)) / 9007199254740992
}
