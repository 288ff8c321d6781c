/**
 * The losses `hybrid`, `binary` and `opd` in numbers: a batch goes through the trainer's own items and settings into
 * the real step, and its losses are computed again from the probabilities of all tokens.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  answerKey,
  contentSha,
  encodeEvent,
  written,
  type BatchItem,
  type BatchSealed,
  type TurnCaptured,
} from '@instar/events'
import { createTurnReader, openMemoryLog } from '@instar/log'
import type { Model, TrainItem } from '@instar/engine/port'
import { readAdapter } from '@instar/policy/checkpoints/peft'
import { completionLogprobs } from '@instar/policy/forward'
import { createRuntime, type Runtime } from '@instar/policy/runtime/runtime'
import { Trainer } from '@instar/policy/step'
import { stepSettings, trainItem } from '../app.ts'
import { hasSignal } from './batch.ts'
import { config, exampleItems, exampleSettings, exampleWeights } from '../../../../test/kit/golden/policy/example.ts'

/** The token ids of a prompt depend on its text alone; only the difference between prompt and hint matters here. */
const model = {
  contextLength: config.contextLength,
  promptIds: (messages: readonly unknown[]) =>
    [...Buffer.from(JSON.stringify(messages))].map((byte) => byte % config.vocabulary).slice(-30),
} as unknown as Model

const BODY = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: 'q' }] }))
const HINT = 'Answer in plain text.'

const captured = (at: number, { prompt, completion, behaviourLogprobs, temperature }: TrainItem): TurnCaptured => ({
  type: 'TurnCaptured',
  finish: 'stop',
  turn: `s.${at}`,
  session: 's',
  policy: 'policy',
  version: 0,
  adapter: null,
  group: String(at),
  candidate: 0,
  candidates: 1,
  dialect: 'chat',
  kind: 'main',
  labelSource: 'header',
  userTurn: null,
  subject: 'u',
  key: null,
  digest: String(at),
  body: {
    from: null,
    prefix: 0,
    suffix: 0,
    written: { keyId: null, bytes: BODY },
    blob: null,
    length: BODY.length,
    sha256: contentSha(BODY),
  },
  after: null,
  stateFrom: 0,
  prompt: { from: null, prefix: 0, ids: [...prompt], length: prompt.length },
  sampling: { temperature, topP: 1, topK: 0, seed: 1, maxTokens: 5, stop: [] },
  tokens: 'exact',
  ids: [...completion],
  logprobs: [...behaviourLogprobs],
  text: written('a'),
  toolCallIds: [],
  answer: answerKey(String(at), []),
  trainable: true,
  reason: null,
  offPrefix: false,
  engine: 'e',
  at: 1,
  firstTokenAt: 1,
  finishedAt: 1,
})

type Scene = { runtime: Runtime; trainer: Trainer; items: BatchItem[]; of(loss: string): Promise<TrainItem[]> }

const open = async (): Promise<Scene> => {
  const runtime = await createRuntime({
    config,
    weights: exampleWeights(),
    base: 'example',
    engine: 'wasm',
    threads: 1,
  })
  const log = openMemoryLog()
  const places = new Map<string, { partition: number; offset: number }>()
  const items: BatchItem[] = []
  for (const [at, item] of (await exampleItems(runtime)).slice(0, 6).entries()) {
    const { id, ...record } = encodeEvent(captured(at, item))
    const [position] = await log.append([record])
    assert.ok(position)
    places.set(`s.${at}`, position)
    const reward = item.advantage < 0 ? -1 : 1
    const hint = reward < 0 ? written(HINT) : null
    const advantage = item.advantage
    items.push({
      turn: `s.${at}`,
      record: id,
      session: 's',
      score: 'c',
      subject: 'u',
      version: 0,
      reward,
      baseline: reward - advantage,
      advantage,
      hint,
    })
  }
  const reader = createTurnReader(log, (turn) => places.get(turn) as never)
  const of = (loss: string): Promise<TrainItem[]> =>
    Promise.all(items.map((item) => trainItem({ reader, model }, item, loss)))
  return { runtime, trainer: new Trainer(runtime, 'example'), items, of }
}

const sealed = (loss: string, rules = 2): BatchSealed =>
  ({
    loss,
    seed: 11,
    settings: { ...exampleSettings, epochs: 1, klWeight: 0.2, klFullAtAdvantage: 1, rules },
  }) as unknown as BatchSealed

/** The three parts computed here, on the adapter that the update starts from, where every ratio p/p_old is 1. */
const byHand = async (runtime: Runtime, items: readonly TrainItem[], { loss, settings }: BatchSealed) => {
  const V = config.vocabulary
  const rows = async (item: TrainItem, slot: number | null, prompt = item.prompt): Promise<Float32Array> => {
    const [found] = await completionLogprobs(runtime, [
      { prompt, completion: item.completion, temperature: item.temperature, slot },
    ])
    return found as Float32Array
  }
  const kl = (p: Float32Array, q: Float32Array): number =>
    p.reduce((sum, value, i) => sum + Math.exp(value) * (value - q[i]!), 0)
  const own = (all: Float32Array, { completion }: TrainItem): number[] => completion.map((id, at) => all[at * V + id]!)
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
  const tokens = sum(items.map(({ completion }) => completion.length))
  let [policy, toBase, toTeacher, hinted] = [0, 0, 0, 0]
  for (const item of items) {
    const [student, base] = [await rows(item, 1), await rows(item, null)]
    const gaps = own(student, item).map((value, at) => value - item.behaviourLogprobs[at]!)
    const inside = Math.abs(sum(gaps) / gaps.length) <= Math.log(settings.sequenceMask!)
    if (inside) policy -= item.advantage * sum(gaps.map((gap) => Math.min(Math.exp(gap), settings.tisCap!)))
    toBase += kl(student, base)
    if (!item.hintPrompt) continue
    const teacher = await rows(item, null, item.hintPrompt)
    if (sum(own(teacher, item)) >= sum(own(base, item)) - 0.1) continue
    toTeacher += kl(student, teacher)
    hinted += item.completion.length
  }
  const meanAbs = sum(items.map(({ advantage }) => Math.abs(advantage))) / items.length
  const share = loss === 'opd' ? 1 : Math.min(1, meanAbs / settings.klFullAtAdvantage!)
  const opdLoss = hinted === 0 ? 0 : (settings.opdWeight! * toTeacher) / hinted
  return { policyLoss: policy / tokens, opdLoss, klLoss: (settings.klWeight! * share * toBase) / tokens }
}

test('hybrid, binary and opd are the sums of their parts, each with the KL to the base', async () => {
  const { runtime, trainer, of } = await open()
  const first = await trainer.step(
    await of('hybrid'),
    { ...exampleSettings, learningRate: 0.02 },
    { adapter: null, state: null },
  )
  runtime.setAdapterSlot(1, readAdapter(first.adapter, config))
  const found: Record<string, { policyLoss: number; opdLoss: number; klLoss: number }> = {}
  for (const loss of ['hybrid', 'binary', 'opd']) {
    const items = await of(loss)
    const { figures } = await trainer.step(items, stepSettings(sealed(loss)), {
      adapter: first.adapter,
      state: first.state,
    })
    const expected = await byHand(runtime, items, sealed(loss))
    for (const part of ['policyLoss', 'opdLoss', 'klLoss'] as const) {
      assert.ok(
        Math.abs(figures[part] - expected[part]) < 2e-5,
        `${loss}: ${part} is ${figures[part]}, by hand ${expected[part]}`,
      )
    }
    found[loss] = expected
  }
  const [hybrid, binary, opd] = [found.hybrid!, found.binary!, found.opd!]
  for (const [part, value] of Object.entries(hybrid))
    assert.ok(Math.abs(value) > 1e-4, `${part} is ${value}: it says nothing here`)
  assert.deepEqual([binary.opdLoss, Math.abs(opd.policyLoss)], [0, 0])
  assert.ok(
    Math.abs(opd.klLoss / hybrid.klLoss - 2) < 1e-6,
    'the mean |A| is half of klFullAtAdvantage; opd has the whole KL',
  )
  await runtime.close()
})

test('a batch of loss opd that was sealed by an older build is computed without the KL', async () => {
  const { trainer, runtime, of } = await open()
  const first = await trainer.step(await of('hybrid'), exampleSettings, { adapter: null, state: null })
  const { figures } = await trainer.step(await of('opd'), stepSettings(sealed('opd', 1)), {
    adapter: first.adapter,
    state: first.state,
  })
  assert.equal(figures.klLoss, 0)
  assert.notEqual(figures.opdLoss, 0)
  await runtime.close()
})

test('the signal of a batch depends on its loss: binary uses no hints, and opd no advantages', () => {
  const item = { advantage: 0, reward: -1, hint: null } as BatchItem
  const signal = (loss: string, changes: Partial<BatchItem>): boolean =>
    hasSignal({ loss, items: [{ ...item, ...changes }] })
  const of = (changes: Partial<BatchItem>): boolean[] =>
    ['hybrid', 'binary', 'opd'].map((loss) => signal(loss, changes))
  assert.deepEqual(of({ advantage: -0.5 }), [true, true, false])
  assert.deepEqual(of({ hint: written(HINT) }), [true, false, true])
  assert.deepEqual(of({ hint: written(HINT), reward: 1 }), [false, false, false])
  assert.deepEqual(of({}), [false, false, false])
})
