import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { FALSE_REJECTION, fallProbabilities, fallsToReject } from './falls.ts'

const SIZES = [32, 64, 96, 128]

test('the probabilities of all numbers of falls sum to 1, and their mean is that of the rate', () => {
  for (const probes of SIZES) {
    const of = fallProbabilities(probes, { answers: 192, failed: 3 })
    ok(Math.abs(of.reduce((sum, p) => sum + p, 0) - 1) < 1e-9)
    const mean = of.reduce((sum, p, k) => sum + k * p, 0)
    ok(Math.abs(mean - (probes * 4) / 194) < 1e-9, `${mean}`)
  }
})

test('a model that has lost nothing is rejected at most once in 1,000 verdicts, and one fall fewer would be too few', () => {
  equal(FALSE_REJECTION, 0.001)
  for (const probes of SIZES)
    for (const failed of [0, 1, 4, 10]) {
      const noise = { answers: 2 * probes, failed }
      const limit = fallsToReject(probes, noise)
      const atLeast = (k: number): number =>
        fallProbabilities(probes, noise)
          .slice(k)
          .reduce((sum, p) => sum + p, 0)
      ok(atLeast(limit) <= FALSE_REJECTION && atLeast(limit - 1) > FALSE_REJECTION, `${probes} ${failed} ${limit}`)
    }
})

test('the table of docs/learning.md', () => {
  const row = (probes: number): number[] =>
    [0, 0.01, 0.02, 0.05, 0.1].map((rate) =>
      fallsToReject(probes, { answers: 2 * probes, failed: Math.round(2 * probes * rate) }),
    )
  deepEqual(SIZES.map(row), [
    [6, 8, 8, 10, 13],
    [7, 8, 11, 14, 19],
    [7, 10, 12, 17, 24],
    [7, 11, 13, 20, 30],
  ])
})

test('without probes, or without a fresh answer, nothing is rejected by them', () => {
  ok(fallsToReject(0, { answers: 0, failed: 0 }) > 0)
  equal(fallsToReject(32, { answers: 0, failed: 0 }), 33)
})
