/**
 * An agent's session whose prompts grow from 2,000 to 32,000 tokens, trained on over HTTP: the rows that the server gets, what
 * the update costs in tokens, and what happens where the server states a shorter context.
 */
import type { TrainItem } from '@instar/engine/port'
import { connectTrainer } from '@instar/tinker'
import { verify } from '../../services/trainer/src/shell/verify.ts'
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { exampleModel, openLine, startTrainer, untilWaits } from '../kit/remote-line.ts'
import { ScriptedTinker, type TinkerBehaviour } from './scripted-tinker.ts'
import { readPass } from './tinker-wire.ts'

const model = { ...exampleModel([1, 2, 3, 4]), vocabulary: 64, contextLength: 40_960 }
const PROMPTS = [2_000, 10_000, 18_000, 24_000, 32_000]
const ANSWER = 20
const LIMITS = { submitMs: 10_000, resultMs: 60_000, connectMs: 2000, answerMs: 20_000 }

const ids = (count: number, seed: number): number[] =>
  Array.from({ length: count }, (_, at) => 3 + ((at * 7 + seed * 13 + ((at * at) % 11)) % 60))

/** Each prompt begins with the one before and its answer. */
const session = (): TrainItem[] => {
  let before: number[] = []
  return PROMPTS.map((length, turn) => {
    const prompt = [...before, ...ids(length - before.length, turn)]
    const completion = ids(ANSWER, 50 + turn)
    before = [...prompt, ...completion]
    return {
      prompt,
      completion,
      temperature: 1,
      advantage: turn % 2 === 0 ? 1 : -1,
      behaviourLogprobs: completion.map(() => -4),
      hintPrompt: null,
    }
  })
}

const updated = async (t: TestContext, behaviour: TinkerBehaviour, config: Record<string, unknown> = {}) => {
  const scripted = await new ScriptedTinker(behaviour).start()
  t.after(() => scripted.kill())
  const server = await connectTrainer(`tinker+${scripted.url}`, { key: null, limits: LIMITS })
  const line = await openLine()
  const turns = session()
  await line.turns(turns)
  const started = await startTrainer(line.log, { server }, model, {
    batchSize: turns.length,
    batchMax: turns.length,
    ...config,
  })
  await untilWaits(started, 'verdict')
  await started.trainer.stop()
  await server.close()
  const [[computed], [scored]] = [await line.events('UpdateComputed'), await line.events('TrainerScored')]
  assert.ok(computed && scored)
  await line.verdict(true)
  assert.equal((await verify({ log: line.log, learner: null, model }, 'policy', null)).first, null)
  // The rows of the probe have few tokens.
  const passes = scripted.seen
    .filter(({ path }) => path.endsWith('/forward_backward'))
    .map(({ bytes }) => readPass(bytes))
    .filter(({ data }) => data.some(({ tokens }) => tokens.length > 1000))
  const rows = (forward: boolean): number[][] =>
    passes
      .filter(({ forwardOnly }) => forwardOnly === forward)
      .map(({ data }) => data.map(({ tokens }) => tokens.length))
  return { forward: rows(true), backward: rows(false), figures: computed.figures, scored }
}

test('five turns of up to 32,000 tokens are one row of each pass with five answers in it, and verify makes it again', async (t) => {
  const { forward, backward, figures, scored } = await updated(t, {})
  // The last id of a row is a target only. Scored before each of two steps and after them, and once under the base.
  assert.deepEqual(
    [forward, backward],
    [
      [[32_019], [32_019], [32_019], [32_019]],
      [[32_019], [32_019]],
    ],
  )
  assert.equal(scored.rows.length, 5)
  const { backwardPromptTokens, backwardResponseTokens, tokens } = figures
  assert.deepEqual([backwardPromptTokens, backwardResponseTokens, tokens], [2 * 31_920, 2 * 100, 100])
})

test('without shared rows the same turns are five rows, 2.7 times the tokens', async (t) => {
  const { backward, figures } = await updated(t, {}, { sharedPrefixes: false })
  assert.deepEqual(
    backward,
    [0, 1].map(() => PROMPTS.map((length) => length + ANSWER - 1)),
  )
  assert.equal(figures.backwardPromptTokens, 2 * 86_000)
})

test('a server whose context is 18,432 tokens gets the turns that fit, and each other turn has its reason', async (t) => {
  const { backward, figures, scored } = await updated(t, { modelEntry: { max_context_length: 18_432 } })
  assert.deepEqual(backward, [[18_019], [18_019]])
  assert.deepEqual(
    scored.dropped.map(({ reason }) => reason),
    ['context_length_exceeded', 'context_length_exceeded'],
  )
  assert.deepEqual([scored.rows.length, figures.dropped_context_length_exceeded], [3, 2])
})

test('turnTokensMax is the cap where a server states no context', async (t) => {
  const step = { turnTokensMax: 24_100 }
  const { backward, figures } = await updated(t, {}, { step })
  assert.deepEqual([backward[0], figures.dropped_context_length_exceeded], [[24_019], 1])
})
