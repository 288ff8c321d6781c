/** Rows of rehearsal: drawn by the batch's seed, and the same whenever they are computed. */
import { deepEqual, equal, notDeepEqual, ok, rejects } from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Settings } from '@instar/events'
import type { EvaluateRequest, Model } from '@instar/engine/port'
import { ANSWER_TOKENS, rehearsalItems, withRehearsal } from './rehearsal.ts'

const model = {
  contextLength: 40,
  promptIds: (messages: readonly { content: string }[]) => Array.from(messages.at(-1)!.content, (_, at) => at),
} as unknown as Model
const learner = () => {
  const asked: EvaluateRequest[] = []
  return {
    asked,
    evaluate: async (request: EvaluateRequest) => {
      asked.push(request)
      const completions = request.prompts.map(({ length }) => ({ ids: [length], text: '', reason: 'stop' as const }))
      return { completions, kl: [], entropy: 0, length: 1, repetition: 0 }
    },
  }
}
const batch = (seed: number, settings: Record<string, number> = {}) => ({
  number: 3,
  seed,
  settings: withRehearsal({ rehearsalRows: 6, rehearsalWeight: 1, ...settings }),
})

describe('the rows of a batch', () => {
  test('are the base’s own greedy answers to prompts that its seed draws, in one call', async () => {
    const one = learner()
    const items = await rehearsalItems({ learner: one, model }, batch(7))
    equal(items.length, 6)
    equal(one.asked.length, 1)
    const { adapter, sampling } = one.asked[0]!
    deepEqual([adapter, sampling.temperature, sampling.maxTokens], [null, 0, ANSWER_TOKENS])
    deepEqual(await rehearsalItems({ learner: learner(), model }, batch(7)), items)
    const seeds = await Promise.all([8, 9].map((seed) => rehearsalItems({ learner: learner(), model }, batch(seed))))
    for (const other of seeds) notDeepEqual(other, items)
    for (const { prompt, completion, rehearsal, advantage, hintPrompt } of items) {
      ok(prompt.length + ANSWER_TOKENS <= 40)
      deepEqual([completion, rehearsal, advantage, hintPrompt], [[prompt.length], true, 0, null])
    }
    const short = await rehearsalItems({ learner: learner(), model }, batch(7, { turnTokensMax: 34 }))
    ok(short.every(({ prompt }) => prompt.length <= 18))
  })

  test('are none without rows or weight, nor on a record that has no such setting', async () => {
    const without: Settings[] = [{}, { rehearsalRows: 6 }, { rehearsalRows: 0, rehearsalWeight: 1 }]
    for (const settings of without) {
      const one = learner()
      deepEqual(await rehearsalItems({ learner: one, model }, { number: 1, seed: 1, settings }), [])
      equal(one.asked.length, 0)
      deepEqual(withRehearsal(settings), settings)
    }
  })

  test('are refused where the batch names other prompts than this build has', async () => {
    const { settings, ...rest } = batch(7)
    ok(Number.isSafeInteger(settings.rehearsalPrompts) && settings.rehearsalPrompts! > 0)
    const other = { ...rest, settings: { ...settings, rehearsalPrompts: settings.rehearsalPrompts! + 1 } }
    await rejects(rehearsalItems({ learner: learner(), model }, other), { code: 'bad_record' })
  })
})
