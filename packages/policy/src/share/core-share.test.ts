import { equal, ok } from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { exampleSettings } from '../../../../test/kit/golden/policy/example.ts'
import { createCoreShare, openModel, pausedMs, startLearning, startServing } from '../index.ts'
import { LearningWork, ServingShare } from './core-share.ts'

const model = fileURLToPath(new URL('../../../../models/tiny', import.meta.url))

test('serving pauses while learning has work, no longer than until it is done, and never without', async () => {
  const memory = createCoreShare(0.5)
  const work = new LearningWork(memory, 1)
  const serving = new ServingShare(memory, 2, 2)
  await serving.ended(1000)
  equal(pausedMs(memory), 0)
  work.begin()
  let at = 0
  await serving.ended(100, () => (at += 100))
  equal(pausedMs(memory), 100)
  const pause = serving.ended(100_000, () => at)
  work.end()
  await pause
  equal(pausedMs(memory), 100)
})

test('serving does not pause where every thread of both engines has a core', async () => {
  const memory = createCoreShare(0.5)
  const work = new LearningWork(memory, 2)
  work.begin()
  await new ServingShare(memory, 2, 4).ended(1000)
  equal(pausedMs(memory), 0)
})

test('an update beside a request: serving pauses, and the request and the update end as without the other', async () => {
  const share = createCoreShare(0.5)
  const loaded = await openModel(model)
  const prompt = loaded.promptIds([{ role: 'user', content: 'What is 2 plus 3?' }], {})
  const serving = await startServing({ model, threads: availableParallelism(), share })
  const learning = await startLearning({ model, share })
  const sampling = { temperature: 0.7, topP: 1, topK: 0, seed: 1, maxTokens: 48, stop: [] }
  const answer = async (): Promise<number[]> => {
    const ids: number[] = []
    for await (const piece of serving.generate({ prompt, adapter: null, topLogprobs: 0, sampling }))
      if (piece.type === 'tokens') ids.push(...piece.tokens.map(({ id }) => id))
    return ids
  }
  try {
    const alone = await answer()
    equal(pausedMs(share), 0)
    const item = {
      prompt,
      completion: alone,
      behaviourLogprobs: alone.map(() => -1),
      temperature: 0.7,
      advantage: 1,
      hintPrompt: null,
    }
    const settings = { ...exampleSettings, seed: 1, microBatchTokens: 256 }
    let done = false
    const step = learning
      .step(Array<typeof item>(16).fill(item), settings, { adapter: null, state: null })
      .finally(() => (done = true))
    while (!done && pausedMs(share) === 0) equal(String(await answer()), String(alone))
    const { figures } = await step
    ok(pausedMs(share) > 0)
    ok(figures.steps > 0)
    const before = pausedMs(share)
    equal(String(await answer()), String(alone))
    equal(pausedMs(share), before)
  } finally {
    await learning.close()
    await serving.close()
  }
})
