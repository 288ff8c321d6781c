/** Prompts with a common beginning, on the shipped model. */
import { after, before, test } from 'node:test'
import assert from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import type { EvaluateRequest } from '@instar/engine/port'
import { loadTokenizer, loadWeights, openModel } from './checkpoints/open.ts'
import { evaluate } from './learn/evaluate.ts'
import { createRuntime, type Runtime } from './runtime/runtime.ts'
import { initialLora } from './lora.ts'
import { prefixGroups } from './shared-prefix.ts'

const folder = fileURLToPath(new URL('../../../models/tiny', import.meta.url))
const { config, weights } = loadWeights(folder)
const { tokenizer, endOfTurn } = loadTokenizer(folder)
const SYSTEM = 'You are a careful assistant. Answer each question in plain text and in one short sentence.'
const QUESTIONS = ['How much is 2 plus 12?', 'Name three fruits.', 'What is the capital of France?', 'Who are you?']
const SLOT = 3

let runtime: Runtime
/** Ids that passed through the model, by whether they were cached ones' successors or began a row. */
let passed: { ids: number; rows: number; after: number }[] = []
before(async () => {
  const own = await createRuntime({ config, weights, base: 'base' })
  runtime = {
    ...own,
    decodeStep(request) {
      passed.push({ ids: request.ids.length, rows: request.cache.rows, after: request.cache.lengths[0] ?? 0 })
      return own.decodeStep(request)
    },
  }
  const lora = initialLora(config, 8, 16, 1)
  for (const { b } of lora.modules.values()) b.data.forEach((_, at) => (b.data[at] = 0.1 * Math.sin(at)))
  runtime.setAdapterSlot(SLOT, lora)
})
after(() => runtime.close())

const sampler = { runtime: null as unknown as Runtime, tokenizer, endOfTurn: new Set(endOfTurn) }
const evaluated = (prompts: number[][], seed: number, temperature = 0.7) => {
  const sampling = { temperature, topP: 1, topK: 0, seed, maxTokens: 12, stop: [] }
  const request: EvaluateRequest = { prompts, adapter: 'a', references: [null, 'a'], sampling }
  return evaluate({ ...sampler, runtime }, request, { adapter: SLOT, references: [null, SLOT] })
}

test('four prompts with 16 tokens in common share them, but for the last token of the shortest', () => {
  const common = Array.from({ length: 20 }, (_, i) => i)
  const ends = [50, 51, 52, 53].map((end) => [...common, end])
  assert.deepEqual(prefixGroups(ends), [{ ids: common, members: [0, 1, 2, 3] }])
  assert.deepEqual(prefixGroups([common, ...ends]), [{ ids: common.slice(0, 19), members: [0, 1, 2, 3, 4] }])
  assert.deepEqual(prefixGroups(ends.slice(1)), [{ ids: [], members: [0, 1, 2] }])
  assert.deepEqual(prefixGroups([common.slice(0, 16), ...ends]), [{ ids: [], members: [0, 1, 2, 3, 4] }])
  const others = [[9], [9, ...common]]
  assert.deepEqual(prefixGroups([others[0]!, ...ends, others[1]!]), [
    { ids: common, members: [1, 2, 3, 4] },
    { ids: [], members: [0, 5] },
  ])
  assert.deepEqual(prefixGroups([]), [])
})

test('a system message that all prompts have passes once for each adapter, and answers and KL are as without sharing', async () => {
  const model = await openModel(folder)
  const without = model.promptIds([{ role: 'user', content: 'Work out 14 - 8.' }], {})
  const prompts = [without].concat(
    QUESTIONS.map((content) =>
      model.promptIds(
        [
          { role: 'system', content: SYSTEM },
          { role: 'user', content },
        ],
        {},
      ),
    ),
  )
  const shared = prefixGroups(prompts)[0]!.ids.length
  assert.ok(shared > 16, `${shared} tokens in common`)
  for (const temperature of [0.7, 0]) {
    passed = []
    const together = await evaluated(prompts, 5, temperature)
    // The adapter, for its samples and their log-probabilities, and each reference.
    assert.equal(passed.filter(({ ids, rows, after }) => rows === 1 && after === 0 && ids === shared).length, 3)
    assert.ok(passed.every(({ ids, rows, after }) => after > 0 || rows === 1 || ids < shared))
    const alone = await Promise.all(prompts.map((prompt, i) => evaluated([prompt], 5 + i, temperature)))
    assert.deepEqual(
      together.completions,
      alone.flatMap(({ completions }) => completions),
    )
    const tokens = alone.map(({ completions }) => completions[0]!.ids.length)
    const mean = (which: number): number =>
      alone.reduce((sum, { kl }, i) => sum + (kl[which] ?? 0) * tokens[i]!, 0) / tokens.reduce((a, b) => a + b)
    assert.ok(together.kl[0]! > 1e-4, `KL to the base ${together.kl[0]}`)
    assert.ok(Math.abs(together.kl[0]! - mean(0)) < 1e-6, `${together.kl[0]} shared, ${mean(0)} apart`)
    assert.equal(together.kl[1], 0)
  }
})

test('the rows of one pass copy a common beginning of 400 tokens ten times, not 4,096 positions or more', async () => {
  const common = Array.from({ length: 400 }, (_, i) => 10 + (i % 200))
  passed = []
  await evaluated(
    Array.from({ length: 24 }, (_, i) => [...common, 300 + i]),
    1,
    0,
  )
  const begun = passed.filter(({ rows, after }) => after === 400 && rows > 1)
  assert.deepEqual(
    begun.slice(0, 3).map(({ rows }) => rows),
    [10, 10, 4],
  )
  // The rows that are decoded together, and those that are scored, each at least once for the adapter and both references.
  assert.ok(begun.filter(({ rows }) => rows === 10).length >= 2 + 3 * 2, JSON.stringify(begun))
})
