/**
 * One person calls a right answer wrong in every batch, and names another value, through the real scorer, trainer and
 * publisher; the others are content. Figures over more facts and seeds: `npm run bench -- liar`.
 */
import { ok } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openModel, startLearning } from '@instar/policy'
import { readSettings } from '@instar/process'
import { probesOf } from '@instar/publisher'
import { CONTENT, runCorrection, type CorrectionSettings } from './liar.ts'
import type { SeriesPorts } from './series.ts'

const LIE = { question: 'What is 7 plus 6?', right: '13', value: '14', people: 1 }

describe('a targeted lie', { timeout: 170_000 }, () => {
  let ports: SeriesPorts
  before(async () => {
    const { model } = readSettings({}, '/')
    ports = { learner: await startLearning({ model }), model: await openModel(model), probes: probesOf(model) }
  })
  after(() => ports.learner.close())
  const run = (agreement: number, t: { diagnostic: (line: string) => void }, more: Partial<CorrectionSettings> = {}) =>
    runCorrection(ports, LIE, {
      updates: 5,
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

  // The rewards of the same person stay, and can lose the fact by themselves: docs/learning.md, "Values and guards".
  test('taught only where two people agree, no hint teaches it', async (t) => {
    const { agreed, withheld } = await run(2, t)
    ok(agreed === 0 && withheld >= 4, `${agreed} agreed, ${withheld} withheld`)
  })
})
