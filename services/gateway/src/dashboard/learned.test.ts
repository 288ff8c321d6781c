import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { openMemoryLog } from '@instar/log'
import type { ScoreRequest } from '@instar/engine/port'
import type { ReadModel } from '@instar/projections/read-model'
import { model, Publisher, startRig, turnsOf, type Rig } from '../../../../test/kit/gateway.ts'

type Learned = {
  loss: string
  parent_version: number
  advantage: number
  old: number[]
  importance: number[]
  masked: boolean
  ratio: number
  teacher: number[] | null
  hint_dropped: boolean
  no_teacher: string | null
}

const SETTINGS = {
  tisCap: 2,
  sequenceMask: 3,
  opdWeight: 0.5,
  klWeight: 0.1,
  klFullAtAdvantage: 1,
  weightShare: 0,
} as const
const HINT = 'Answer in one word.'
const ITEM = { reward: -0.5, turn_score: null, outcome: null, advantage: -0.75, hint: HINT }

/**
 * A gateway with version 1 and one answer of the base. `over`: nats by which an adapter scores each token above its recorded
 * log-prob; the base scores as recorded, and 0.4 lower with a hint.
 */
const start = async (
  t: TestContext,
  row: () => object | null,
  over = 0.25,
): Promise<{ rig: Rig; asked: ScoreRequest[] }> => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  await publisher.publish(0)
  const readModel = { learnedFrom: async () => row(), close: async () => undefined } as unknown as ReadModel
  const rig = await startRig({ log, script: () => 'Paris it is.', ports: { readModel } })
  t.after(() => rig.stop())
  await rig.client.chat.completions.create({
    model: 'policy@0',
    temperature: 0.5,
    messages: [{ role: 'user', content: 'The capital of France?' }],
  })
  const [turn] = await turnsOf(log)
  const asked: ScoreRequest[] = []
  rig.engine.score = (async (request: ScoreRequest) => {
    asked.push(request)
    const hinted = model.decode(request.prompt).includes(HINT)
    return Float32Array.from(turn!.logprobs, (logprob) => logprob + (request.adapter ? over : hinted ? -0.4 : 0))
  }) as never
  return { rig, asked }
}

const learned = async (rig: Rig): Promise<Learned & { error?: { code: string } }> => {
  const [turn] = await turnsOf(rig.log)
  return (await (await rig.fetch(`/v1/dashboard/turns/${turn!.turn}/learned`)).json()) as Learned
}
const near = (actual: readonly number[], expected: readonly number[]): void => {
  assert.equal(actual.length, expected.length)
  for (const [i, value] of actual.entries()) assert.ok(Math.abs(value - expected[i]!) < 1e-5, `${value} ${expected[i]}`)
}

test('importance weights, mask and teacher of a turn are those of the trainer’s own weights', async (t) => {
  const { rig, asked } = await start(t, () => ({ ...ITEM, parent_version: 1, loss: 'hybrid', settings: SETTINGS }))
  const [turn] = await turnsOf(rig.log)
  const found = await learned(rig)
  assert.deepEqual(
    [found.loss, found.parent_version, found.advantage, found.masked, found.hint_dropped, found.no_teacher],
    ['hybrid', 1, -0.75, false, false, null],
  )
  near(
    found.importance,
    turn!.ids.map(() => Math.exp(0.25)),
  )
  near([found.ratio], [Math.exp(0.25)])
  near(
    found.old,
    turn!.logprobs.map((logprob) => logprob + 0.25),
  )
  near(
    found.teacher!,
    turn!.logprobs.map((logprob) => logprob - 0.4),
  )
  assert.deepEqual(
    asked.map(({ temperature, completion }) => [temperature, completion.length]),
    asked.map(() => [0.5, turn!.ids.length]),
  )
  const hinted = model.promptIds([{ role: 'user', content: `The capital of France?\n${HINT}` }], {})
  assert.deepEqual(asked.at(-1)!.prompt, hinted)
})

test('a turn whose ratio is beyond the limit is masked, and a weight is capped', async (t) => {
  const settings = { ...SETTINGS, tisCap: 2 }
  const row = () => ({ ...ITEM, hint: null, parent_version: 1, loss: 'hybrid', settings })
  const capped = await learned((await start(t, row, 0.9)).rig)
  assert.deepEqual([capped.masked, new Set(capped.importance)], [false, new Set([2])])
  const beyond = await learned((await start(t, row, 1.2)).rig)
  assert.deepEqual([beyond.masked, new Set(beyond.importance), beyond.no_teacher], [true, new Set([0]), 'no_hint'])
})

test('why there is no term of distillation is said', async (t) => {
  let row: object | null = null
  const { rig } = await start(t, () => row)
  assert.equal((await learned(rig)).error?.code, 'not_available')
  for (const [why, change] of [
    ['no_hint', { hint: null }],
    ['not_negative', { reward: 0.5 }],
    ['not_negative', { reward: -1, outcome: -1, turn_score: 0.5 }],
    ['loss', { loss: 'binary' }],
    ['contrast', { settings: { ...SETTINGS, opdContrast: 2 } }],
    ['too_long', { hint: `${HINT} ${'word '.repeat(model.contextLength)}` }],
    [null, {}],
  ] as const) {
    row = { ...ITEM, parent_version: 1, loss: 'hybrid', settings: SETTINGS, ...change }
    const found = await learned(rig)
    assert.deepEqual(
      [found.no_teacher, found.teacher === null],
      [why, why !== null],
      JSON.stringify(change).slice(0, 80),
    )
  }
  row = { ...ITEM, parent_version: 1, loss: 'opd', settings: SETTINGS }
  assert.equal((await learned(rig)).advantage, 0, 'the loss opd has no advantages')
})
