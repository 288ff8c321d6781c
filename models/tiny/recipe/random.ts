/** Seeded randomness for the recipe: the same seed gives the same corpus on every machine. */
export type Random = () => number

/** sfc32 (Chris Doty-Humphrey, PractRand), seeded through splitmix32. Uniform in [0, 1). */
export function seeded(seed: number): Random {
  let s = seed | 0
  const mix = (): number => {
    s = (s + 0x9e3779b9) | 0
    let z = s ^ (s >>> 16)
    z = Math.imul(z, 0x21f0aaad)
    z ^= z >>> 15
    z = Math.imul(z, 0x735a2d97)
    return z ^ (z >>> 15)
  }
  let a = mix(),
    b = mix(),
    c = mix(),
    d = 1
  const next = (): number => {
    const t = (((a + b) | 0) + d) | 0
    d = (d + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (c << 21) | (c >>> 11)
    c = (c + t) | 0
    return (t >>> 0) / 4294967296
  }
  for (let i = 0; i < 12; i++) next()
  return next
}

/** Uniform integer in [low, high], both included. */
export const integer = (random: Random, low: number, high: number): number =>
  low + Math.floor(random() * (high - low + 1))

export const chance = (random: Random, p: number): boolean => random() < p

export function pick<T>(random: Random, items: readonly T[]): T {
  const item = items[Math.floor(random() * items.length)]
  if (item === undefined) throw new RangeError('pick from an empty list')
  return item
}

/** One key of `weights`, in proportion to its weight. */
export function weighted<K extends string>(random: Random, weights: Readonly<Record<K, number>>): K {
  const entries = Object.entries(weights) as [K, number][]
  let left = random() * entries.reduce((sum, [, w]) => sum + w, 0)
  for (const [key, weight] of entries) {
    left -= weight
    if (left < 0) return key
  }
  return entries[entries.length - 1]![0]
}

/** `count` different items in random order (partial Fisher-Yates on a copy). */
export function sample<T>(random: Random, items: readonly T[], count: number): T[] {
  const pool = [...items]
  for (let i = 0; i < count; i++) {
    const j = integer(random, i, pool.length - 1)
    const kept = pool[i]!
    pool[i] = pool[j]!
    pool[j] = kept
  }
  return pool.slice(0, count)
}

/** A number drawn uniformly from [low, high] that is not in `taken`. */
export function other(random: Random, low: number, high: number, taken: readonly number[]): number {
  for (;;) {
    const n = integer(random, low, high)
    if (!taken.includes(n)) return n
  }
}
