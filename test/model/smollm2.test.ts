/**
 * A real model: SmolLM2-135M-Instruct from its GGUF file, through tokenizer, template, serving and learning.
 * Reference figures: smollm2.json, made by reference.py. Run by `npm run test:model`.
 */
import { after, before, describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { GeneratedToken, Model, ServingEngine, StepSettings, TrainItem } from '@instar/engine/port'
import { openModel, startLearning, startServing } from '@instar/policy'
import { exampleSettings } from '../kit/golden/policy/example.ts'

type Reference = {
  encodings: { text: string; ids: number[] }[]
  answers: { question: string; prompt: number[]; steps: [number, number][][] }[]
}
const reference = JSON.parse(readFileSync(path.join(import.meta.dirname, 'smollm2.json'), 'utf8')) as Reference
const target = process.env['INSTAR_TEST_MODEL'] ?? ''
/** Largest difference of a log-prob between float32 here and float64 there; measured 2e-5. */
const TOLERANCE = 2e-4

let model: Model
let serving: ServingEngine
before(async () => {
  model = await openModel(target)
  serving = await startServing({ model: target, threads: 2 })
})
after(() => serving.close())

type Ask = { adapter?: string | null; temperature?: number; seed?: number; maxTokens?: number; top?: number }
async function ask(
  prompt: readonly number[],
  { adapter = null, temperature = 0, seed = 1, maxTokens = 24, top = 0 }: Ask = {},
): Promise<{ tokens: GeneratedToken[]; ids: number[]; text: string; pieces: number }> {
  const tokens: GeneratedToken[] = []
  let text = ''
  let pieces = 0
  for await (const piece of serving.generate({
    prompt,
    adapter,
    topLogprobs: top,
    sampling: { temperature, topP: 1, topK: 0, seed, maxTokens, stop: [] },
  })) {
    pieces++
    if (piece.type === 'end') text += piece.text
    else if (piece.type === 'tokens') {
      tokens.push(...piece.tokens)
      text += piece.tokens.map((token) => token.text).join('')
    }
  }
  return { tokens, ids: tokens.map((token) => token.id), text, pieces }
}

const SETTINGS: StepSettings = {
  ...exampleSettings,
  seed: 1,
  rank: 8,
  alpha: 16,
  learningRate: 1e-3,
  epochs: 1,
  clipHigh: 0.2,
  sequenceMask: 2,
  opdWeight: 0,
  klWeight: 0,
  microBatchTokens: 256,
}

describe('SmolLM2-135M-Instruct', () => {
  test('the tokenizer gives the ids of the reference tokenizer', () => {
    for (const { text, ids } of reference.encodings) {
      assert.deepEqual(model.encode(text), ids, JSON.stringify(text))
      assert.equal(model.decode(ids), text)
    }
  })

  test('greedy answers and their ten most likely tokens equal those of the float64 reference', async () => {
    let worst = 0
    for (const { question, prompt, steps } of reference.answers) {
      assert.deepEqual(model.promptIds([{ role: 'user', content: question }], {}), prompt)
      const { tokens } = await ask(prompt, { maxTokens: steps.length, top: 20 })
      assert.deepEqual(
        tokens.map((token) => token.id),
        steps.map((step) => step[0]?.[0]),
      )
      for (const [t, step] of steps.entries()) {
        const found = new Map(tokens[t]?.top.map(({ id, logprob }) => [id, logprob]))
        for (const [id, logprob] of step) worst = Math.max(worst, Math.abs((found.get(id) ?? Infinity) - logprob))
      }
    }
    assert.ok(worst < TOLERANCE, `log-probs differ by up to ${worst}`)
  })

  test('the one-row decoder on 4-bit blocks agrees with the float32 sequence', async () => {
    for (const { prompt } of reference.answers) {
      const { tokens, ids } = await ask(prompt)
      const scored = await serving.score({ prompt, completion: ids, adapter: null, temperature: 1 })
      const worst = Math.max(...tokens.map(({ logprob }, at) => Math.abs(logprob - scored[at]!)))
      assert.ok(worst < TOLERANCE, `log-probs differ by up to ${worst}`)
    }
  })

  test('a conversation is streamed, and the ids of its second turn extend those of the first', async () => {
    const first = [{ role: 'user', content: 'What is the capital of France?' }]
    const prompt = model.promptIds(first, {})
    const answer = await ask(prompt)
    assert.match(answer.text, /Paris/)
    assert.ok(answer.pieces >= answer.ids.length / 2, 'the text comes in many pieces')
    const second = model.promptIds(
      [
        ...first,
        { role: 'assistant', content: answer.text, token_ids: answer.ids },
        { role: 'user', content: 'And of Italy?' },
      ],
      {},
    )
    assert.deepEqual(second.slice(0, prompt.length + answer.ids.length), [...prompt, ...answer.ids])
    const next = await ask(second)
    assert.match(next.text, /Rome/)
  })

  test('one update raises the log-prob of rewarded answers, and a rollback serves the unchanged base', async () => {
    const prompt = model.promptIds([{ role: 'user', content: 'Name a colour.' }], {})
    const before = await ask(prompt)
    const samples = await Promise.all(
      [1, 2, 3, 4].map((seed) => ask(prompt, { temperature: 0.7, seed, maxTokens: 20 })),
    )
    const items = samples.map(({ tokens, ids }, i): TrainItem => ({
      prompt,
      completion: ids,
      behaviourLogprobs: tokens.map((token) => token.logprob),
      temperature: 0.7,
      advantage: i % 2 === 0 ? 1 : -1,
      hintPrompt: null,
    }))
    const learning = await startLearning({ model: target, threads: 2 })
    try {
      const { adapter, figures } = await learning.step(items, SETTINGS, { adapter: null, state: null })
      assert.ok(figures.behaviourGap < TOLERANCE, `recorded and recomputed log-probs differ by ${figures.behaviourGap}`)
      assert.ok(figures.gradNorm > 0 && figures.steps === 1 && figures.maskedTurns === 0)
      await serving.load(adapter)
      const gains = await Promise.all(
        items.map(async ({ completion, advantage }) => {
          const [old, now] = await Promise.all(
            [null, adapter.sha256].map((sha) => serving.score({ prompt, completion, adapter: sha, temperature: 0.7 })),
          )
          return advantage * [...now!].reduce((sum, value, i) => sum + value - old![i]!, 0)
        }),
      )
      assert.ok(gains.reduce((a, b) => a + b, 0) > 0.05, `gains ${gains.join(', ')}`)
      const mixed = await Promise.all([ask(prompt), ask(prompt, { adapter: adapter.sha256 }), ask(prompt)])
      assert.deepEqual(mixed[0]?.ids, before.ids)
      assert.deepEqual(mixed[2]?.ids, before.ids)
      await serving.unload(adapter.sha256)
      assert.deepEqual((await ask(prompt)).ids, before.ids)
    } finally {
      await learning.close()
    }
  })
})
