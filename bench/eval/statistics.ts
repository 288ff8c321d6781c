/** Means with 95 % intervals of Student's t over seeds. */

/** `low`, `high`: null with fewer than two values. */
export type Interval = { n: number; mean: number; low: number | null; high: number | null }

/** The 0.975 quantile of Student's t with 1, 2, … degrees of freedom; beyond the list, the normal one's 1.96. */
const T975: readonly number[] = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11,
  2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
]

export const meanOf = (values: readonly number[]): number =>
  values.length === 0 ? Number.NaN : values.reduce((sum, value) => sum + value, 0) / values.length

/** mean ± t · s / √n, where s has n − 1 in its denominator. */
export const intervalOf = (values: readonly number[]): Interval => {
  const n = values.length
  const mean = meanOf(values)
  if (n < 2) return { n, mean, low: null, high: null }
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (n - 1)
  const half = (T975[n - 2] ?? 1.96) * Math.sqrt(variance / n)
  return { n, mean, low: mean - half, high: mean + half }
}

/** Of the differences a − b between values of the same key; a key that one side lacks is left out. */
export const pairedDifference = (a: ReadonlyMap<number, number>, b: ReadonlyMap<number, number>): Interval =>
  intervalOf([...a].flatMap(([key, value]) => (b.has(key) ? [value - b.get(key)!] : [])))
