/** Rows of rehearsal in an update: loss and gradient against a computation in double precision apart from it. */
import { test } from 'node:test'
import assert from 'node:assert/strict'
import type { StepSettings, TrainItem } from '@instar/engine/port'
import { config, exampleItems, exampleSettings, exampleWeights } from '../../../test/kit/golden/policy/example.ts'
import { readAdam } from './adam.ts'
import { readAdapter } from './checkpoints/peft.ts'
import { completionLogprobs } from './forward.ts'
import { loraFrom, loraTensors } from './lora.ts'
import { uniform } from './random.ts'
import { createRuntime, type Runtime } from './runtime/runtime.ts'
import { referenceOf } from './references.ts'
import { Trainer } from './step.ts'

const V = config.vocabulary
const none = { adapter: null, state: null }
const WEIGHT = 30

const open = async (): Promise<{ runtime: Runtime; trainer: Trainer }> => {
  const engine = { config, weights: exampleWeights(), base: 'example', engine: 'onnx', threads: 1 } as const
  const runtime = await createRuntime(engine)
  return { runtime, trainer: new Trainer(runtime, 'example') }
}

const rehearsalRows = (count: number): TrainItem[] => {
  const next = uniform(31)
  const ids = (length: number): number[] => Array.from({ length }, () => Math.floor(next() * V))
  return Array.from({ length: count }, (_, at): TrainItem => {
    const completion = ids(3 + (at % 3))
    return {
      prompt: ids(6 + (at % 4)),
      completion,
      behaviourLogprobs: completion.map(() => 0),
      temperature: 1,
      advantage: 0,
      hintPrompt: null,
      rehearsal: true,
    }
  })
}

const rowsOf = async (runtime: Runtime, item: TrainItem, slot: number | null): Promise<Float32Array> =>
  (await completionLogprobs(runtime, [{ ...item, slot }]))[0]!

/** Σ p log(p/q) of one row over the tokens `kept`, each alone, and all others together; null: over all tokens. */
const klOver = (p: ArrayLike<number>, q: ArrayLike<number>, kept: ReadonlySet<number> | null): number => {
  const sums = new Map<number, [number, number]>()
  for (let v = 0; v < V; v++) {
    const bucket = kept === null || kept.has(v) ? v : -1
    const [a, b] = sums.get(bucket) ?? [0, 0]
    sums.set(bucket, [a + Math.exp(p[v]!), b + Math.exp(q[v]!)])
  }
  return [...sums.values()].reduce((sum, [a, b]) => sum + a * Math.log(a / b), 0)
}

for (const [opdForward, referenceTopK] of [
  [0, 0],
  [1, 0],
  [1, 12],
] as const)
  test(`rehearsal, forward part ${opdForward}, topK ${referenceTopK}: loss and gradient are those of finite differences`, async () => {
    const { runtime, trainer } = await open()
    // Of the batch only a weight of 1e-12 is left, so that the gradient is that of the rows of rehearsal.
    const settings: StepSettings = {
      ...exampleSettings,
      epochs: 1,
      maxGradNorm: 1e9,
      klWeight: 0,
      opdForward,
      referenceTopK,
      rehearsalWeight: WEIGHT,
    }
    const items = (await exampleItems(runtime)).map((item) => ({ ...item, hintPrompt: null }))
    const faint = items.map((item) => ({ ...item, advantage: item.advantage * 1e-12 }))
    const rehearsed = rehearsalRows(5)
    const parent = await trainer.step(items, { ...settings, learningRate: 0.6, epochs: 4, rehearsalWeight: 0 }, none)
    const found = await trainer.step([...faint, ...rehearsed], settings, { adapter: parent.adapter, state: null })
    const lora = readAdapter(parent.adapter, config)
    const tensors = loraTensors(config, lora)
    const gradients = readAdam(found.state, tensors).first
    const tokens = rehearsed.reduce((sum, { completion }) => sum + completion.length, 0)
    const bases = await Promise.all(rehearsed.map((item) => rowsOf(runtime, item, null)))
    const lossAt = async (scale: number): Promise<number> => {
      const moved = new Map(
        [...tensors].map(([name, { shape, data }]) => [
          name,
          { shape, data: data.map((value, at) => value + scale * (gradients.get(name)?.[at] ?? 0)) },
        ]),
      )
      runtime.setAdapterSlot(2, loraFrom(config, lora.rank, lora.alpha, moved))
      let loss = 0
      for (const [index, item] of rehearsed.entries()) {
        const student = await rowsOf(runtime, item, 2)
        const { ids } = referenceOf(bases[index]!, V, referenceTopK)
        item.completion.forEach((_, at) => {
          const p = student.subarray(at * V, (at + 1) * V)
          const q = bases[index]!.subarray(at * V, (at + 1) * V)
          const kept = ids && new Set(ids.subarray(at * referenceTopK, (at + 1) * referenceTopK))
          loss += (WEIGHT / tokens) * (opdForward === 1 ? klOver(q, p, kept) : klOver(p, q, kept))
        })
      }
      return loss
    }
    const loss = await lossAt(0)
    assert.ok(loss > 0.01, `${loss}`)
    assert.ok(Math.abs(loss - (found.figures.rehearsalLoss ?? 0)) < 1e-5 * Math.max(1, loss), `${loss}`)
    assert.equal(found.figures.opdLoss, 0)
    assert.equal(found.figures.rehearsalRows, rehearsed.length)
    const squares = [...gradients.values()].reduce((sum, own) => own.reduce((total, g) => total + g * g, sum), 0)
    const step = 1e-3 / Math.sqrt(squares)
    const slope =
      (8 * ((await lossAt(step)) - (await lossAt(-step))) - ((await lossAt(2 * step)) - (await lossAt(-2 * step)))) /
      (12 * step)
    // Adam's first moment after one step is (1 − β1) times the gradient.
    const expected = squares / (1 - settings.beta1)
    assert.ok(Math.abs(slope / expected - 1) < 5e-3, `${slope}, expected ${expected}`)
    await runtime.close()
  })

test('rows of rehearsal change nothing without a weight, and no figure of the batch with one', async () => {
  const { runtime, trainer } = await open()
  const items = await exampleItems(runtime)
  const rows = rehearsalRows(4)
  const plain = await trainer.step(items, exampleSettings, none)
  const unweighted = await trainer.step([...items, ...rows], exampleSettings, none)
  assert.equal(unweighted.adapter.sha256, plain.adapter.sha256)
  assert.deepEqual(unweighted.figures, plain.figures)
  const with_ = await trainer.step([...items, ...rows], { ...exampleSettings, rehearsalWeight: 1 }, none)
  assert.notEqual(with_.adapter.sha256, plain.adapter.sha256)
  for (const key of ['meanAdvantage', 'meanAbsAdvantage', 'tokens', 'behaviourGap', 'droppedHints'] as const)
    assert.equal(with_.figures[key], plain.figures[key], key)
  await runtime.close()
})

test('an update keeps the base’s distribution on rehearsed prompts more nearly, the more so the larger the weight', async () => {
  const { runtime, trainer } = await open()
  const items = await exampleItems(runtime)
  const rows = rehearsalRows(6)
  const drift = async (rehearsalWeight: number): Promise<number> => {
    const settings = { ...exampleSettings, epochs: 6, learningRate: 0.01, opdForward: 1, rehearsalWeight }
    const { adapter } = await trainer.step([...items, ...rows], settings, none)
    runtime.setAdapterSlot(2, readAdapter(adapter, config))
    let sum = 0
    let tokens = 0
    for (const item of rows) {
      const [own, base] = [await rowsOf(runtime, item, 2), await rowsOf(runtime, item, null)]
      item.completion.forEach((_, at) => {
        sum += klOver(base.subarray(at * V, (at + 1) * V), own.subarray(at * V, (at + 1) * V), null)
        tokens++
      })
    }
    return sum / tokens
  }
  const [without, light, heavy] = [await drift(0), await drift(5), await drift(50)]
  assert.ok(light < 0.8 * without && heavy < 0.5 * light, `${without}, ${light}, ${heavy}`)
  await runtime.close()
})

test('rows of rehearsal alone are no update, and each of several Adam steps has its share of them', async () => {
  const { runtime, trainer } = await open()
  const rows = rehearsalRows(6)
  const items = await exampleItems(runtime)
  const first = await trainer.step(items, exampleSettings, none)
  const parent = { adapter: first.adapter, state: first.state }
  const silent = items.map((item) => ({ ...item, advantage: 0, hintPrompt: null }))
  const settings = { ...exampleSettings, epochs: 1, rehearsalWeight: 1 }
  const same = await trainer.step([...silent, ...rows], settings, parent)
  assert.equal(same.adapter.sha256, first.adapter.sha256)
  const tiny = { ...settings, learningRate: 1e-6, maxGradNorm: 1e9 }
  const whole = await trainer.step([...items, ...rows], tiny, parent)
  const parts = await trainer.step([...items, ...rows], { ...tiny, miniBatches: 3 }, parent)
  assert.deepEqual([whole.figures.steps, parts.figures.steps], [1, 3])
  // With steps as small as these the terms of the parts add up to the whole.
  const [one, three] = [whole.figures.rehearsalLoss ?? 0, parts.figures.rehearsalLoss ?? 0]
  assert.ok(one > 0 && Math.abs(one - three) < 1e-4, `${one}, ${three}`)
  await runtime.close()
})
