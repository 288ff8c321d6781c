/** What every bench says of where and how it ran. */
import { availableParallelism, cpus, loadavg } from 'node:os'

export const machine = (): string =>
  `${availableParallelism()} × ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.versions.node}, load ${loadavg()[0]!.toFixed(1)}`

/** The value below which `share` of them lie; of an even number the upper one of the middle two is the median. */
export const quantile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))] ?? Number.NaN

export const median = (values: readonly number[]): number => quantile(values, 0.5)

/** Three significant digits. */
export const rounded = (value: number): number => Number(value.toPrecision(3))
