/** Numbers computed by hand. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { intervalOf, meanOf, pairedDifference } from '../../bench/eval/statistics.ts'

const near = (value: number | null, expected: number): void =>
  ok(value !== null && Math.abs(value - expected) < 1e-9, `${value} is not ${expected}`)

test('the interval of 1 to 5: mean 3, s² 2.5, t of four degrees 2.776', () => {
  const { n, mean, low, high } = intervalOf([1, 2, 3, 4, 5])
  equal(n, 5)
  equal(mean, 3)
  near(low, 3 - 2.776 * Math.sqrt(0.5))
  near(high, 3 + 2.776 * Math.sqrt(0.5))
})

test('of one value there is no interval, of equal values it has no width, of none the mean is not a number', () => {
  deepEqual(intervalOf([0.25]), { n: 1, mean: 0.25, low: null, high: null })
  deepEqual(intervalOf([0.5, 0.5, 0.5]), { n: 3, mean: 0.5, low: 0.5, high: 0.5 })
  equal(meanOf([]), Number.NaN)
})

test('a paired difference is of the seeds that both have', () => {
  const a = new Map([
    [1, 0.9],
    [2, 0.8],
    [4, 0],
  ])
  const b = new Map([
    [1, 0.5],
    [2, 0.6],
    [3, 1],
  ])
  const { n, mean, low, high } = pairedDifference(a, b)
  equal(n, 2)
  near(mean, 0.3)
  // s = √(0.1² + 0.1²) = 0.1 · √2, s / √2 = 0.1, and t of one degree is 12.706.
  near(low, 0.3 - 1.2706)
  near(high, 0.3 + 1.2706)
})

test('beyond thirty degrees of freedom the quantile is that of the normal distribution', () => {
  const values = Array.from({ length: 32 }, (_, i) => i % 2)
  const { mean, high } = intervalOf(values)
  near(high, mean + 1.96 * Math.sqrt((0.25 * 32) / 31 / 32))
})
