/**
 * Length creep on the real engine: raters prefer the longer of the answers that they see, and nobody asks for length.
 * Each step is small; only the comparison with the base stops the sum. The wishes that lift that limit:
 * services/publisher/src/core/asked-length.test.ts; people who do ask: poison.test.ts.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { NO_PROBES, probesOf } from '@instar/publisher'
import { checkCandidate, THRESHOLDS, type Figures } from '../../services/publisher/src/core/gate.ts'
import { startSeries, type Feedback, type SeriesPorts, type Step } from './series.ts'

const wordsOf = (text: string): number => text.trim().split(/\s+/).length

/** +1 for more words than the mean of the answers so far. */
const longerLiked = (): Feedback => {
  let mean = 6
  return ({ text }) => {
    const words = wordsOf(text)
    const reward = words > mean ? 1 : -1
    mean = 0.95 * mean + 0.05 * words
    return { reward, hint: null }
  }
}

/** Lower than the defaults, so that few updates reach it. */
const LIMIT = { lengthRise: 1.5, lengthRiseSlack: 2 }
const UPDATES = 9

const isBeyond = ({ figures }: Step): boolean =>
  figures['length_fixed']! > LIMIT.lengthRise * figures['length_fixed_base']! + LIMIT.lengthRiseSlack

describe('answers that get longer though nobody asks for it', { timeout: 280_000 }, () => {
  let ports: SeriesPorts
  before(async () => {
    const { model } = readSettings({}, '/')
    const { prompts } = probesOf(model)
    ports = {
      learner: await startLearning({ model }),
      model: await openModel(model),
      probes: { ...NO_PROBES, prompts },
    }
  })
  after(() => ports.learner.close())

  test('no version is beyond the limit that is held against the base; a gate without it accepts the same candidate', async (t) => {
    const series = await startSeries(ports, 1, { thresholds: LIMIT })
    try {
      const feedback = longerLiked()
      const steps: Step[] = []
      while (steps.length < UPDATES && !steps.some(isBeyond)) {
        const step = await series.learn(feedback)
        ok(step, 'a batch without signal')
        steps.push(step)
        const { length_fixed, length_fixed_base, length_parent } = step.figures
        t.diagnostic(`${length_fixed} tokens, base ${length_fixed_base}, parent ${length_parent}: ${step.reason}`)
      }
      const last = steps.at(-1)!
      ok(isBeyond(last), `no candidate is beyond the limit after ${steps.length} updates`)
      deepEqual(
        steps.map(({ reason }) => reason),
        steps.map((step) => (step === last ? 'length_rise' : null)),
      )
      const unguarded = { ...THRESHOLDS, lengthRise: 1e9 }
      deepEqual(checkCandidate(last.figures as Figures, null, unguarded), { accepted: true })
    } finally {
      await series.stop()
    }
  })
})
