/** 32-bit hashes of features (FNV-1a and Murmur's finalizer). */

export const hashText = (text: string, seed = 0): number => {
  let hash = (0x811c9dc5 ^ seed) >>> 0
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return finish(hash)
}

export const hashPair = (a: number, b: number): number => finish(Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ b)

const finish = (hash: number): number => {
  let h = hash
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}
