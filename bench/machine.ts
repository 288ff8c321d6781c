/** The machine of a measurement, and the statistics that the benches share. */
import { availableParallelism, cpus, loadavg } from 'node:os'

/** Number and model of the CPUs, version of Node, load average of the last minute. */
export const machine = (): string =>
  `${availableParallelism()} × ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.versions.node}, load ${loadavg()[0]!.toFixed(1)}`

/** The quantile at `share`, 0…1. Of an even number of values the median is the upper one of the middle two. */
export const quantile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))] ?? Number.NaN

export const median = (values: readonly number[]): number => quantile(values, 0.5)

/** Rounds to three significant digits. */
export const rounded = (value: number): number => Number(value.toPrecision(3))
