import { after, before, test } from 'node:test'
import assert from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import { openModel, startLearning } from '../index.ts'
import { defaultThreads } from './threads.ts'
import type { LearningEngine, Model, Sampling, StepSettings, TrainItem } from '@instar/engine/port'
import { exampleSettings } from '../../../../test/kit/golden/policy/example.ts'

const folder = fileURLToPath(new URL('../../../../models/tiny', import.meta.url))
const settings: StepSettings = { ...exampleSettings, seed: 3, clipHigh: 0.2, sequenceMask: 2, microBatchTokens: 256 }
const sampling: Sampling = { temperature: 0.7, topP: 1, topK: 0, seed: 5, maxTokens: 24, stop: [] }
const questions = [
  'How much is 2 plus 12?',
  'Work out 14 - 8.',
  'What is the capital of France?',
  'Name three fruits.',
  'Sort 5, 3, 9.',
  'Who are you?',
]

let engine: LearningEngine
let model: Model
let prompts: number[][]
before(async () => {
  model = await openModel(folder)
  engine = await startLearning({ model: folder })
  prompts = questions.map((content) => model.promptIds([{ role: 'user', content }], {}))
})
after(() => engine.close())

/** Short answers are rewarded, long ones not. */
async function batch(): Promise<TrainItem[]> {
  const { completions } = await engine.evaluate({ prompts, adapter: null, references: [], sampling })
  return Promise.all(
    completions.map(async ({ ids }, at): Promise<TrainItem> => {
      const prompt = prompts[at] as number[]
      const behaviourLogprobs = [...(await engine.score({ prompt, completion: ids, adapter: null, temperature: 0.7 }))]
      const hintPrompt =
        at % 2 === 0 ? model.promptIds([{ role: 'user', content: `${questions[at]}\nAnswer in one word.` }], {}) : null
      return {
        prompt,
        completion: ids,
        behaviourLogprobs,
        temperature: 0.7,
        advantage: ids.length < 10 ? 1 : -0.5,
        hintPrompt,
      }
    }),
  )
}

test('an update in the thread has finite figures, gives an adapter that loads and changes the policy, and repeats bit for bit', async () => {
  const items = await batch()
  const first = await engine.step(items, settings, { adapter: null, state: null })
  for (const [name, value] of Object.entries(first.figures)) assert.ok(Number.isFinite(value), name)
  assert.equal(first.figures.steps, 2)
  assert.ok(first.figures.behaviourGap < 1e-5, `${first.figures.behaviourGap}`)
  assert.equal(first.fingerprint.base, model.sha256)
  const shares: number[] = []
  const bounded = { ...settings, klParentMax: 10 }
  const second = await engine.step(items, bounded, { adapter: first.adapter, state: first.state }, (share) =>
    shares.push(share),
  )
  assert.ok(
    shares.length > 5 && shares.every((share, at) => share > 0 && share <= 0.99 && share >= (shares[at - 1] ?? 0)),
  )
  assert.ok((shares.at(-1) ?? 0) > 0.7, `ended at ${shares.at(-1)}`)
  await engine.load(first.adapter)
  await engine.load(second.adapter)
  const { kl, completions, entropy, length, repetition } = await engine.evaluate({
    prompts,
    adapter: second.adapter.sha256,
    references: [second.adapter.sha256, first.adapter.sha256, null],
    sampling,
  })
  assert.equal(completions.length, prompts.length)
  assert.ok(Math.abs(kl[0] as number) < 1e-6)
  assert.ok((kl[1] as number) > 1e-6 && (kl[2] as number) > (kl[1] as number), `one update away ${kl[1]}, two ${kl[2]}`)
  assert.ok(entropy > 0 && length > 0 && repetition >= 0 && repetition <= 1)

  const other = await startLearning({ model: folder })
  const again = await other.step(items, settings, { adapter: null, state: null })
  assert.equal(again.adapter.sha256, first.adapter.sha256)
  assert.equal(again.stateSha256, first.stateSha256)
  await other.close()
  await engine.unload(first.adapter.sha256)
  await engine.unload(second.adapter.sha256)
})

test('samples depend on the seed and the prompt, not on other rows', async () => {
  const all = await engine.evaluate({ prompts, adapter: null, references: [null], sampling })
  assert.equal(all.kl[0], 0)
  for (const at of [0, 4]) {
    const alone = await engine.evaluate({
      prompts: [prompts[at] as number[]],
      adapter: null,
      references: [],
      sampling: { ...sampling, seed: sampling.seed + at },
    })
    assert.deepEqual(alone.completions[0], all.completions[at])
  }
  const greedy = await engine.evaluate({
    prompts,
    adapter: null,
    references: [],
    sampling: { ...sampling, temperature: 0, maxTokens: 3 },
  })
  assert.ok(greedy.completions.every(({ ids, reason }) => ids.length <= 3 && (reason === 'stop' || ids.length === 3)))
  const limits = prompts.map((_, at) => 1 + at)
  const limited = await engine.evaluate({
    prompts,
    adapter: null,
    references: [],
    sampling: { ...sampling, temperature: 0 },
    limits,
  })
  for (const [at, { ids }] of limited.completions.entries()) {
    assert.ok(ids.length <= (limits[at] ?? 0))
    const own = greedy.completions[at]?.ids ?? []
    assert.deepEqual(ids.slice(0, own.length), own.slice(0, ids.length))
  }
})

test('invalid calls give errors with codes, and the thread continues', async () => {
  const prompt = prompts[0] as number[]
  await assert.rejects(engine.score({ prompt, completion: [1], adapter: 'f'.repeat(64), temperature: 1 }), {
    code: 'unknown_adapter',
  })
  await assert.rejects(
    engine.score({
      prompt: new Array<number>(model.contextLength).fill(1),
      completion: [1],
      adapter: null,
      temperature: 1,
    }),
    { code: 'context_length_exceeded' },
  )
  await assert.rejects(
    engine.step(
      [{ prompt: [], completion: [1], behaviourLogprobs: [-1], temperature: 1, advantage: 1, hintPrompt: null }],
      settings,
      { adapter: null, state: null },
    ),
    { code: 'bad_request' },
  )
  assert.equal((await engine.score({ prompt, completion: [5, 6], adapter: null, temperature: 1 })).length, 2)
  await assert.rejects(startLearning({ model: `${folder}/nothing` }), { code: 'bad_checkpoint' })
})

test('a small model learns on one thread, a larger one on two where there are two cores', () => {
  assert.deepEqual([defaultThreads(1.6e6, 8), defaultThreads(135e6, 8), defaultThreads(135e6, 1)], [1, 2, 1])
})
