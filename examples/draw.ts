/** Seeded choices: the same seed gives the same tasks. */
export type Draw = (below: number) => number

/** mulberry32. */
export const drawing = (seed: number): Draw => {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}
export const pick = <T>(draw: Draw, items: readonly T[]): T => items[draw(items.length)] as T
