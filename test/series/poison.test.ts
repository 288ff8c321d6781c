/**
 * Series of updates through the gate on the real engine: what the demo's people say passes, update after update; a
 * poisoned series within the bounds of a step keeps the content. Figures over more seeds: docs/learning.md.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { probesOf } from '@instar/publisher'
import { honest, lied, runSeries, type SeriesPorts } from './series.ts'

/** False feedback is learned at this setting: without a gate nine updates leave 0.70 of 0.98. */
const FAST = { learningRate: 9e-3, rank: 8, alpha: 16 }

describe('series of updates through the gate', { timeout: 280_000 }, () => {
  let ports: SeriesPorts
  before(async () => {
    const { model } = readSettings({}, '/')
    ports = { learner: await startLearning({ model }), model: await openModel(model), probes: probesOf(model) }
  })
  after(() => ports.learner.close())

  test('a series of honest feedback is accepted throughout, and the score of the content probe stays', async (t) => {
    const { steps, content } = await runSeries(ports, t, 7, honest)
    deepEqual(
      steps.map(({ reason }) => reason),
      steps.map(() => null),
    )
    ok(content.head >= content.base - 0.04, JSON.stringify(content))
  })

  test('with the bounds of a step the same series keeps the content', async (t) => {
    const { content } = await runSeries(ports, t, 4, lied, { step: FAST })
    ok(content.head >= content.base - 0.04, JSON.stringify(content))
  })
})
