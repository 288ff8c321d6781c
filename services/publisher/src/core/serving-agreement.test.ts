/** The limits of what trainer and servers may differ by, on log-probs with known differences. */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { THRESHOLDS, checkCandidate, type Figures } from './gate.ts'
import { servingFigures, type ServerPairs } from './serving-agreement.ts'

const TRAINER = Array.from({ length: 256 }, (_, at) => -1 - (at % 7))
/** Every second token differs by `most`, the others not at all. */
const pair = (most: number) => ({ trainer: TRAINER, server: TRAINER.map((one, at) => one + (at % 2 === 0 ? most : 0)) })
const server = (candidate: number, base: number): ServerPairs => ({ candidate: [pair(candidate)], base: [pair(base)] })

const FIGURES: Figures = { finite: 1, kl_parent: 0, kl_base: 0, entropy: 1, length: 8, length_parent: 8, repetition: 0 }
const reasonOf = (servers: readonly ServerPairs[], tolerance: number | null = null): string | null => {
  const result = checkCandidate({ ...FIGURES, ...servingFigures(servers, tolerance) }, null, THRESHOLDS)
  return result.accepted ? null : result.reason
}

test('float32 on both sides may differ by 1e-4', () => {
  equal(reasonOf([server(2e-5, 2e-5)]), null)
  equal(reasonOf([server(0.99e-4, 0)]), null)
  equal(reasonOf([server(1.01e-4, 0)]), 'serving_differs')
})

test('half precision: the limits follow from the base, four times its largest difference and twice its mean', () => {
  const figures = servingFigures([server(0.05, 0.04)], null)
  ok(Math.abs(figures['serving_limit']! - 0.16) < 1e-9 && Math.abs(figures['serving_mean_limit']! - 0.04) < 1e-9)
  equal(reasonOf([server(0.05, 0.04)]), null)
  // An adapter that is not the trained one moves the mean before the largest difference.
  equal(reasonOf([server(0.09, 0.04)]), 'serving_differs')
})

test('a base that differs by more than 0.2 is another model, on one server of two as well', () => {
  equal(reasonOf([server(0.19, 0.19)]), null)
  equal(reasonOf([server(0.21, 0.21)]), 'serving_differs')
  equal(reasonOf([server(1e-6, 1e-6), server(0.05, 0.05)]), 'serving_differs')
})

test('a tolerance that is set replaces the calibration; without the base the limit is 0.2', () => {
  equal(reasonOf([server(0.5, 0.5)], 0.6), null)
  equal(reasonOf([server(0.01, 0.01)], 0.005), 'serving_differs')
  equal(servingFigures([{ candidate: [pair(0.1)], base: [] }], null)['serving_limit'], 0.2)
})

test('a log-prob that a server does not give is not finite', () => {
  equal(reasonOf([{ candidate: [{ trainer: [-1, -2], server: [-1] }], base: [] }]), 'not_finite')
})
