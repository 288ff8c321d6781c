/**
 * Series of updates through the gate on the real engine: what the demo's people say passes, update after update; a
 * poisoned series is stopped while the content is still there. Figures over more seeds: docs/learning.md.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after, before, describe, test, type TestContext } from 'node:test'
import type { LearningEngine, Model } from '@instar/engine/port'
import { openModel, startLearning } from '@instar/policy'
import { THRESHOLDS, type Probe } from '@instar/publisher'
import { readSettings } from '@instar/process'
import { probesOf } from '@instar/publisher'
import { honest, lied, startSeries, type Feedback, type SeriesSettings, type Step } from './series.ts'

/** Questions that nobody asked and that are not the gate's. */
const QUESTIONS = 150
/** Lies are learned at this setting: without a gate nine updates leave 0.70 of 0.98. */
const FAST = { learningRate: 9e-3, rank: 8, alpha: 16 }

describe('series of updates through the gate', { timeout: 170_000 }, () => {
  let ports: { learner: LearningEngine; model: Model; probes: readonly Probe[] }
  before(async () => {
    const { model } = readSettings({}, '/')
    ports = { learner: await startLearning({ model }), model: await openModel(model), probes: probesOf(model) }
  })
  after(() => ports.learner.close())

  type Outcome = { steps: Step[]; content: { base: number; head: number }; probes: number }
  const inSeries = async (
    t: TestContext,
    updates: number,
    feedback: Feedback,
    settings: SeriesSettings = {},
  ): Promise<Outcome> => {
    const series = await startSeries(ports, 1, settings)
    try {
      const steps: Step[] = []
      while (steps.length < updates) {
        const step = await series.learn(feedback)
        ok(step, 'a batch without signal')
        const { kl_parent, kl_base, content } = step.figures
        t.diagnostic(
          `${step.accepted ? 'accepted' : step.reason}: KL ${kl_parent?.toFixed(4)} to the parent, ${kl_base?.toFixed(3)} to the base, content ${content?.toFixed(3)}; ${step.satisfied} satisfied, ${step.right} right`,
        )
        steps.push(step)
      }
      const content = {
        base: await series.content(null, QUESTIONS),
        head: await series.content(series.head(), QUESTIONS),
      }
      t.diagnostic(
        `content on ${QUESTIONS} questions: base ${content.base.toFixed(3)}, head ${content.head.toFixed(3)}`,
      )
      return { steps, content, probes: series.base['content']! }
    } finally {
      await series.stop()
    }
  }

  test('a series of honest feedback is accepted throughout, and the score of the content probe stays', async (t) => {
    const { steps, content } = await inSeries(t, 9, honest)
    deepEqual(
      steps.map(({ reason }) => reason),
      steps.map(() => null),
    )
    ok(content.head >= content.base - 0.04, JSON.stringify(content))
  })

  test('a series of false feedback at three times the rate is rejected before the content is lost', async (t) => {
    const { steps, content } = await inSeries(t, 5, lied, { step: FAST })
    ok(
      steps.some(({ accepted }) => !accepted),
      'nothing was refused',
    )
    ok(content.head >= content.base - 0.06, JSON.stringify(content))
  })

  test('the content probe alone rejects it: no version is below the best one by more than the limit', async (t) => {
    const { steps, content, probes } = await inSeries(t, 9, lied, {
      step: FAST,
      thresholds: { klParent: 1e9, klBase: 1e9 },
    })
    const refused = steps.filter(({ accepted }) => !accepted)
    ok(refused.length > 0, 'nothing was refused')
    deepEqual([...new Set(refused.map(({ reason }) => reason))], ['content'])
    let best = probes
    for (const { accepted, figures } of steps) {
      equal(accepted, figures.content! >= best - THRESHOLDS.contentDrop)
      if (accepted) best = Math.max(best, figures.content!)
    }
    ok(content.head >= content.base - 0.06, JSON.stringify(content))
  })
})
