/** An update with rows of rehearsal on the model that ships: computed again by another engine, bit for bit. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { BatchItem, BatchSealed, Settings } from '@instar/events'
import type { LearningEngine, Model } from '@instar/engine/port'
import type { TurnReader } from '@instar/log'
import { openModel, startLearning } from '@instar/policy'
import { ROOT } from '../../../../tools/tree.ts'
import { batchSettings } from '../app.ts'
import { trainerConfig } from '../config.ts'
import { stepBatch } from './step-items.ts'

const MODEL = join(ROOT, 'models', 'tiny')
const PARENT = { adapter: null, state: null }
const ASKED = ['What is 2 plus 3?', 'Name a colour.', 'Which animal barks?', 'What is snow?']

let model: Model
let engines: LearningEngine[] = []
before(async () => {
  model = await openModel(MODEL)
  engines = [await startLearning({ model: MODEL }), await startLearning({ model: MODEL })]
})
after(async () => {
  for (const engine of engines) await engine.close()
})

const promptOf = (turn: string): number[] => model.promptIds([{ role: 'user', content: ASKED[Number(turn)] ?? '' }], {})
const reader = {
  record: async (turn: string) => {
    const ids = promptOf(turn).slice(0, 6)
    return { key: null, ids, logprobs: ids.map(() => -3), sampling: { temperature: 1 } }
  },
  promptIds: async (turn: string) => promptOf(turn),
} as unknown as TurnReader

const sealed = (settings: Settings, seed = 5): BatchSealed =>
  ({
    type: 'BatchSealed',
    number: 2,
    loss: 'binary',
    settings,
    seed,
    items: ASKED.map(
      (_, turn) =>
        ({
          turn: String(turn),
          subject: `s${turn}`,
          reward: 1,
          advantage: turn % 2 ? 1 : -1,
          hint: null,
        }) as unknown as BatchItem,
    ),
  }) as unknown as BatchSealed
const settingsWith = (rehearsalRows: number): Settings =>
  batchSettings(trainerConfig.parse({ step: { rehearsalRows, rehearsalWeight: 2, sequenceMask: 1000 } }))
const update = (engine: number, batch: BatchSealed) =>
  stepBatch({ reader, model, learner: engines[engine]! }, batch, PARENT)

test('from its record alone; it depends on rows, weight and seed, and its figures name them', async () => {
  const rehearsing = sealed(settingsWith(5))
  const [one, again, without] = [
    await update(0, rehearsing),
    await update(1, rehearsing),
    await update(0, sealed(settingsWith(0))),
  ]
  deepEqual([again.adapter.sha256, again.stateSha256], [one.adapter.sha256, one.stateSha256])
  deepEqual(again.figures, one.figures)
  equal(one.figures.rehearsalRows, 5)
  ok((one.figures.rehearsalLoss ?? 0) > 0)
  equal(one.figures.tokens, without.figures.tokens)
  deepEqual([without.figures.rehearsalRows, without.figures.rehearsalLoss], [undefined, undefined])
  notEqual(without.adapter.sha256, one.adapter.sha256)
  const others = [
    await update(0, sealed(settingsWith(6))),
    await update(0, sealed({ ...settingsWith(5), rehearsalWeight: 3 })),
    await update(0, { ...rehearsing, seed: 6 }),
  ]
  for (const { adapter } of others) notEqual(adapter.sha256, one.adapter.sha256)
})

test('a training server has none, and its batches name no prompts', () => {
  const remote = batchSettings(trainerConfig.parse({ step: { rehearsalRows: 5 } }), true)
  deepEqual([remote.rehearsalRows, remote.rehearsalPrompts], [0, undefined])
})
