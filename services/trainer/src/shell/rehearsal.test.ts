/** Rows of rehearsal: drawn by the batch's seed, and the same whenever they are computed. */
import { deepEqual, equal, notDeepEqual, ok, rejects } from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { Settings } from '@instar/events'
import type { EvaluateRequest, Model } from '@instar/engine/port'
import { ROOT } from '../../../../tools/tree.ts'
import { ANSWER_TOKENS, rehearsalItems, rehearsalPrompts, withRehearsal } from './rehearsal.ts'

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

  test('are those of the list that the batch names, also where this build rehearses another one', async (t) => {
    const { settings, ...rest } = batch(7)
    ok(Number.isSafeInteger(settings.rehearsalPrompts) && settings.rehearsalPrompts! > 0)
    const folder = mkdtempSync(join(tmpdir(), 'instar-prompts-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    // As a later build has them: the list of the batch beside a new one.
    cpSync(join(ROOT, 'models', 'rehearsal', 'prompts.jsonl'), join(folder, 'prompts-1.jsonl'))
    writeFileSync(
      join(folder, 'prompts.jsonl'),
      `${JSON.stringify({ messages: [{ role: 'user', content: 'Hm?' }] })}\n`,
    )
    const expected = await rehearsalItems({ learner: learner(), model }, { ...rest, settings })
    deepEqual(await rehearsalItems({ learner: learner(), model }, { ...rest, settings }, folder), expected)
  })

  test('are refused where this build does not have the list that the batch names', async () => {
    const { settings, ...rest } = batch(7)
    const other = { ...rest, settings: { ...settings, rehearsalPrompts: settings.rehearsalPrompts! + 1 } }
    await rejects(rehearsalItems({ learner: learner(), model }, other), { code: 'other_prompts' })
  })

  test('come from lists that are as they were shipped: a changed list gets a new file', () => {
    const SHIPPED = { 'prompts.jsonl': 0xa64338084c74 }
    for (const [name, digest] of Object.entries(SHIPPED)) equal(rehearsalPrompts(undefined, name).digest, digest, name)
  })
})
