import { deepEqual, equal, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError, type BatchItem, type BatchSealed } from '@instar/events'
import type { TurnReader } from '@instar/log'
import type { Model, Parent, TrainItem } from '@instar/engine/port'
import { ScriptedLearner } from '../../../../test/kit/scripted-learner.ts'
import { stepBatch } from './step-items.ts'

const PARENT: Parent = { adapter: null, state: null }
const sealed = (turns: readonly string[]): BatchSealed =>
  ({
    type: 'BatchSealed',
    number: 7,
    loss: 'binary',
    settings: {},
    seed: 1,
    items: turns.map(
      (turn) => ({ turn, subject: `subject of ${turn}`, reward: 1, advantage: 1, hint: null }) as unknown as BatchItem,
    ),
  }) as unknown as BatchSealed

/** Turns whose name begins with `lost` have a record that cannot be read; `torn`, `hole`: refer to what is not there. */
const reader = {
  record: async (turn: string) => {
    if (turn.startsWith('lost')) throw new InstarError('bad_record', `${turn} is damaged`)
    if (turn.startsWith('torn')) throw new InstarError('unknown_turn', `the turn before ${turn} is not on the log`)
    if (turn.startsWith('hole')) throw new InstarError('missing_blob', `the body of ${turn} is not on the log`)
    if (turn.startsWith('gone')) throw new InstarError('log_unavailable', 'the log does not answer')
    return { key: `key of ${turn}`, ids: [turn.length], logprobs: [-1], sampling: { temperature: 1 } }
  },
  promptIds: async (turn: string) => [turn.length],
} as unknown as TurnReader

/** Refuses items of three or nine letters by their index, as the engine those that are too long or not finite. */
class Picky extends ScriptedLearner {
  readonly trained: number[][] = []
  readonly people: unknown[] = []
  override async step(...args: Parameters<ScriptedLearner['step']>): ReturnType<ScriptedLearner['step']> {
    const items: readonly TrainItem[] = args[0]
    const item = items.findIndex(({ prompt }) => prompt[0] === 3)
    if (item >= 0) throw new InstarError('context_length_exceeded', `turn ${item} is too long`, { item })
    const endless = items.findIndex(({ prompt }) => prompt[0] === 9)
    if (endless >= 0) throw new InstarError('update_not_finite', `turn ${endless} is not finite`, { item: endless })
    this.people.push(...items.map(({ subject, key }) => [subject, key]))
    this.trained.push(items.map(({ prompt }) => prompt[0] ?? 0))
    return super.step(...args)
  }
}
const ports = (learner: Picky) => ({ reader, model: {} as Model, learner })

test('items whose records or tokens are bad are left out and counted by reason; the others are trained on', async () => {
  const learner = new Picky()
  const { figures, leftOut } = await stepBatch(
    ports(learner),
    sealed(['fours', 'bad', 'lost1', 'infinites', 'xxxxxxx', 'bad', 'lost2', 'torn', 'hole']),
    PARENT,
  )
  deepEqual(learner.trained, [[5, 7]])
  deepEqual(learner.people, [
    ['subject of fours', 'key of fours'],
    ['subject of xxxxxxx', 'key of xxxxxxx'],
  ])
  deepEqual(
    Object.entries(figures).filter(([name]) => name.startsWith('dropped') && name !== 'droppedHints'),
    [
      ['droppedItems', 7],
      ['dropped_bad_record', 2],
      ['dropped_unknown_turn', 1],
      ['dropped_missing_blob', 1],
      ['dropped_context_length_exceeded', 2],
      ['dropped_update_not_finite', 1],
    ],
  )
  deepEqual(
    leftOut.map(({ turn, code, why }) => [turn, code, why]),
    [
      ['lost1', 'bad_record', 'lost1 is damaged'],
      ['lost2', 'bad_record', 'lost2 is damaged'],
      ['torn', 'unknown_turn', 'the turn before torn is not on the log'],
      ['hole', 'missing_blob', 'the body of hole is not on the log'],
      ['bad', 'context_length_exceeded', 'turn 1 is too long'],
      ['bad', 'context_length_exceeded', 'turn 3 is too long'],
      ['infinites', 'update_not_finite', 'turn 1 is not finite'],
    ],
  )
})

test('a batch without a good item fails with the error of the last; an error of the log or engine is no fault of an item', async () => {
  const learner = new Picky()
  await rejects(stepBatch(ports(learner), sealed(['lost', 'bad']), PARENT), { code: 'context_length_exceeded' })
  await rejects(stepBatch(ports(learner), sealed(['fours', 'gone']), PARENT), { code: 'log_unavailable' })
  learner.faults.push(new InstarError('engine_lost', 'the thread has ended'))
  await rejects(stepBatch(ports(learner), sealed(['fours']), PARENT), { code: 'engine_lost' })
  equal(learner.trained.length, 1)
})
