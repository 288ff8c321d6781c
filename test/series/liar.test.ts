/**
 * One person calls a right answer wrong in every batch, with another value or without one, through the real scorer, trainer
 * and publisher; the others are content. Figures over more facts and seeds: `npm run bench -- liar`.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { probesOf } from '@instar/publisher'
import { CONTENT, runCorrection, type CorrectionSettings } from './liar.ts'
import type { SeriesPorts } from './series.ts'

const LIE = { question: 'What is 7 plus 6?', right: '13', value: '14', people: 1 }

describe('a targeted lie', { timeout: 280_000 }, () => {
  let ports: SeriesPorts
  before(async () => {
    const { model } = readSettings({}, '/')
    ports = { learner: await startLearning({ model }), model: await openModel(model), probes: probesOf(model) }
  })
  after(() => ports.learner.close())
  const run = (
    agreement: number,
    t: { diagnostic: (line: string) => void },
    more: Partial<CorrectionSettings> = {},
    lie = LIE,
  ) =>
    runCorrection(ports, lie, {
      updates: 6,
      agreement,
      seed: 41,
      feedback: CONTENT,
      logLine: (line) => t.diagnostic(line),
      ...more,
    })

  test('taught as it is said, it flips the fact', async (t) => {
    const { after: answers } = await run(1, t, { updates: 10, until: ({ right }) => right === 0 })
    ok(answers.at(-1)!.right === 0, JSON.stringify(answers))
  })

  test('taught only where two people agree, it changes nothing in six updates', async (t) => {
    const { after: answers, agreed, withheld } = await run(2, t)
    deepEqual([agreed, withheld], [0, 6])
    deepEqual(
      answers,
      answers.map(() => ({ right: 1, value: 0 })),
    )
  })

  const NO_VALUE = { ...LIE, complaint: 'No, that is wrong.' }

  test('without a value, rewards alone flip the fact where they have no limit', async (t) => {
    const { after: answers } = await run(
      2,
      t,
      { updates: 10, askedAlone: 64, until: ({ right }) => right === 0 },
      NO_VALUE,
    )
    ok(answers.at(-1)!.right === 0, JSON.stringify(answers))
  })

  test('two of them, which nobody opposes, change nothing in ten updates', async (t) => {
    const { after: answers } = await run(2, t, { updates: 10 }, NO_VALUE)
    deepEqual(
      answers,
      answers.map(() => ({ right: 1, value: 0 })),
    )
  })
})
