import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Reweighter } from './reweight.ts'
import { sample } from './sample.ts'

const NONE = { frequencyPenalty: 0, presencePenalty: 0, repetitionPenalty: 1, minP: 0, logitBias: [] } as const
const LOGITS = Float32Array.of(2, 1, -1, 0.5, -Infinity)
const rounded = (values: Float32Array): number[] => Array.from(values, (value) => Math.round(value * 1000) / 1000)

test('a bias is added to the logits of its ids; −∞ stays −∞; the input is not changed', () => {
  const row = Float32Array.from(LOGITS)
  assert.deepEqual(
    rounded(
      new Reweighter(
        {
          ...NONE,
          logitBias: [
            [1, 100],
            [4, 100],
            [0, -0.5],
          ],
        },
        1,
        [],
      ).apply(row),
    ),
    [1.5, 101, -1, 0.5, -Infinity],
  )
  assert.deepEqual(row, LOGITS)
})

test('the frequency penalty applies per occurrence in the completion, the presence penalty once; prompts do not count', () => {
  const reweighter = new Reweighter({ ...NONE, frequencyPenalty: 0.5, presencePenalty: 0.25 }, 1, [0, 0, 2])
  assert.deepEqual(rounded(reweighter.apply(LOGITS)), rounded(LOGITS))
  for (const id of [1, 1, 3]) reweighter.push(id)
  assert.deepEqual(rounded(reweighter.apply(LOGITS)), [2, 1 - 2 * 0.5 - 0.25, -1, 0.5 - 0.5 - 0.25, -Infinity])
})

test('the repetition penalty divides positive and multiplies negative logits, once per token of prompt or completion', () => {
  const reweighter = new Reweighter({ ...NONE, repetitionPenalty: 2 }, 1, [0, 0, 2])
  reweighter.push(0)
  reweighter.push(3)
  assert.deepEqual(rounded(reweighter.apply(LOGITS)), [1, 1, -2, 0.25, -Infinity])
})

test('min-p masks tokens below that share of the highest probability, after temperature and bias', () => {
  // At temperature 2 the second token has exp(-0.5) = 0.607 of the first one's probability, the fourth exp(-0.75) =
  // 0.472.
  assert.deepEqual(rounded(new Reweighter({ ...NONE, minP: 0.5 }, 2, []).apply(LOGITS)), [
    2,
    1,
    -Infinity,
    -Infinity,
    -Infinity,
  ])
  assert.deepEqual(rounded(new Reweighter({ ...NONE, minP: 0.4 }, 2, []).apply(LOGITS)), [
    2,
    1,
    -Infinity,
    0.5,
    -Infinity,
  ])
  assert.deepEqual(rounded(new Reweighter({ ...NONE, minP: 0.5, logitBias: [[2, 10]] }, 2, []).apply(LOGITS)), [
    -Infinity,
    -Infinity,
    9,
    -Infinity,
    -Infinity,
  ])
  assert.deepEqual(rounded(new Reweighter({ ...NONE, minP: 1 }, 0, []).apply(LOGITS)), rounded(LOGITS))
  // The log-probability of a sample is that among the remaining tokens.
  const sampled = sample(
    new Reweighter({ ...NONE, minP: 0.5 }, 2, []).apply(LOGITS),
    { temperature: 2, topK: 0, topP: 1 },
    0.99,
    5,
  )
  assert.deepEqual([sampled.id, sampled.top.length], [1, 2])
  assert.ok(Math.abs(sampled.logprob - Math.log(Math.exp(-0.5) / (1 + Math.exp(-0.5)))) < 1e-6)
})
