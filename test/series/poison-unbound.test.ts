/**
 * Series of updates through the gate on the real engine: without the bounds of a step, a poisoned series
 * is stopped while the content is still there. Figures over more seeds: docs/learning.md.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { probesOf } from '@instar/publisher'
import { lied, runSeries, type SeriesPorts } from './series.ts'

/** Lies are learned at this setting: without a gate nine updates leave 0.70 of 0.98. */
const FAST = { learningRate: 9e-3, rank: 8, alpha: 16 }
/** Without the bounds of a step, which would scale it back: what the gate alone holds. */
const UNBOUND = { ...FAST, klParentMax: 1e9, klBaseMax: 1e9 }

describe('poisoned series without bounds of a step through the gate', { timeout: 280_000 }, () => {
  let ports: SeriesPorts
  before(async () => {
    const { model } = readSettings({}, '/')
    ports = { learner: await startLearning({ model }), model: await openModel(model), probes: probesOf(model) }
  })
  after(() => ports.learner.close())

  test('a series of false feedback at three times the rate is rejected before the content is lost', async (t) => {
    const { steps, content } = await runSeries(ports, t, 5, lied, { step: UNBOUND })
    ok(
      steps.some(({ accepted }) => !accepted),
      'nothing was rejected',
    )
    ok(content.head >= content.base - 0.12, JSON.stringify(content))
  })

  test('the content probe alone rejects it: no version is below the best one by more than the limit', async (t) => {
    const { steps, content } = await runSeries(ports, t, 9, lied, {
      step: UNBOUND,
      thresholds: { klParent: 1e9, klBase: 1e9 },
    })
    const rejected = steps.filter(({ accepted }) => !accepted)
    ok(rejected.length > 0, 'nothing was rejected')
    deepEqual([...new Set(rejected.map(({ reason }) => reason))], ['content'])
    for (const { accepted, figures } of steps) equal(accepted, figures.falls! < figures.falls_limit!)
    ok(content.head >= content.base - 0.18, JSON.stringify(content))
  })
})
