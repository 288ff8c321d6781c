/** The embedded trainer with a contrasted teacher: loss and gradient against a computation in double precision apart from it. */
import { test } from 'node:test'
import assert from 'node:assert/strict'
import type { StepSettings, TrainItem } from '@instar/engine/port'
import { config, exampleItems, exampleSettings, exampleWeights } from '../../../test/kit/golden/policy/example.ts'
import { readAdam } from './adam.ts'
import { readAdapter } from './checkpoints/peft.ts'
import { completionLogprobs, ownLogprobs } from './forward.ts'
import { loraFrom, loraTensors } from './lora.ts'
import { uniform } from './random.ts'
import { createRuntime, type Runtime } from './runtime/runtime.ts'
import { referenceOf } from './references.ts'
import { Trainer } from './step.ts'
import { tokenWeights } from './token-weights.ts'

const V = config.vocabulary
const CONTRAST = 2.5

/** Log softmax of base + contrast · (hinted − base) of one row. */
const teacherOf = (hinted: ArrayLike<number>, base: ArrayLike<number>): number[] => {
  const z = Array.from(hinted, (value, v) => base[v]! + CONTRAST * (value - base[v]!))
  const total = Math.log(z.reduce((sum, one) => sum + Math.exp(one), 0))
  return z.map((one) => one - total)
}

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

const rowsOf = async (
  runtime: Runtime,
  item: TrainItem,
  slot: number | null,
  prompt = item.prompt,
): Promise<Float32Array> => (await completionLogprobs(runtime, [{ ...item, prompt, slot }]))[0]!

/** A prompt with six more tokens under which the answer is hardly less likely: without a contrast such a hint is dropped. */
const hintOf = async (runtime: Runtime, item: TrainItem): Promise<number[]> => {
  const sum = async (prompt?: readonly number[]): Promise<number> =>
    ownLogprobs(await rowsOf(runtime, item, null, prompt), item.completion).reduce((total, one) => total + one, 0)
  const without = await sum()
  for (let seed = 1; ; seed++) {
    const next = uniform(seed)
    const prompt = [...item.prompt, ...Array.from({ length: 6 }, () => Math.floor(next() * V))]
    const gain = (await sum(prompt)) - without
    if (gain > -0.1 && gain < 0) return prompt
  }
}

for (const [opdForward, referenceTopK] of [
  [0, 0],
  [1, 0],
  [1, 12],
  [0.5, 12],
] as const)
  test(`contrast ${CONTRAST}, forward part ${opdForward}, topK ${referenceTopK}: loss and gradient are those of finite differences`, async () => {
    const engine = { config, weights: exampleWeights(), base: 'example', engine: 'onnx', threads: 1 } as const
    const runtime = await createRuntime(engine)
    const trainer = new Trainer(runtime, 'example')
    const settings: StepSettings = {
      ...exampleSettings,
      epochs: 1,
      maxGradNorm: 1e9,
      klWeight: 0,
      opdForward,
      referenceTopK,
      opdContrast: CONTRAST,
    }
    const items = await Promise.all(
      (await exampleItems(runtime)).map(async (item): Promise<TrainItem> => ({
        ...item,
        advantage: 0,
        hintPrompt: item.hintPrompt && (await hintOf(runtime, item)),
      })),
    )
    const parent = await trainer.step(items, { ...settings, learningRate: 0.03 }, { adapter: null, state: null })
    const found = await trainer.step(items, settings, { adapter: parent.adapter, state: null })
    const lora = readAdapter(parent.adapter, config)
    const tensors = loraTensors(config, lora)
    const gradients = readAdam(found.state, tensors).first

    runtime.setAdapterSlot(1, lora)
    const turns = await Promise.all(
      items.map(async (item) => {
        const old = ownLogprobs(await rowsOf(runtime, item, 1), item.completion)
        const tokens = { advantage: 0, behaviour: item.behaviourLogprobs, old, subject: null, key: null }
        if (!item.hintPrompt) return { item, teacher: null, kept: null, tokens: { ...tokens, hint: null } }
        const [base, hinted] = [await rowsOf(runtime, item, null), await rowsOf(runtime, item, null, item.hintPrompt)]
        const row = (of: Float32Array, at: number): Float32Array => of.subarray(at * V, (at + 1) * V)
        const teacher = item.completion.map((_, at) => teacherOf(row(hinted, at), row(base, at)))
        const hint = {
          without: ownLogprobs(base, item.completion),
          with: item.completion.map((id, at) => teacher[at]![id]!),
        }
        const kept = teacher.map((own) => referenceOf(Float32Array.from(own), V, referenceTopK).ids)
        return { item, teacher, kept: kept.map((ids) => ids && new Set(ids)), tokens: { ...tokens, hint } }
      }),
    )
    const weights = tokenWeights(
      turns.map(({ tokens }) => tokens),
      settings,
    )
    assert.ok(weights.some(({ opd }) => opd > 0))
    const plain = await trainer.step(items, { ...settings, opdContrast: 1 }, { adapter: parent.adapter, state: null })
    assert.equal(plain.figures.droppedHints, items.filter(({ hintPrompt }) => hintPrompt).length)
    const lossAt = async (scale: number): Promise<number> => {
      const moved = new Map(
        [...tensors].map(([name, { shape, data }]) => [
          name,
          { shape, data: data.map((value, at) => value + scale * (gradients.get(name)?.[at] ?? 0)) },
        ]),
      )
      runtime.setAdapterSlot(2, loraFrom(config, lora.rank, lora.alpha, moved))
      let loss = 0
      for (const [index, { item, teacher, kept }] of turns.entries()) {
        const { opd } = weights[index]!
        if (!teacher || opd === 0) continue
        const student = await rowsOf(runtime, item, 2)
        teacher.forEach((q, at) => {
          const p = student.subarray(at * V, (at + 1) * V)
          const ids = kept?.[at] ?? null
          loss += opd * ((1 - opdForward) * klOver(p, q, ids) + opdForward * klOver(q, p, ids))
        })
      }
      return loss
    }
    const loss = await lossAt(0)
    assert.ok(loss > 0.01 && Math.abs(loss - found.figures.opdLoss) < 1e-5 * Math.max(1, loss), `${loss}`)
    const squares = [...gradients.values()].reduce((sum, own) => own.reduce((total, g) => total + g * g, sum), 0)
    const step = 1e-2 / Math.sqrt(squares)
    const slope =
      (8 * ((await lossAt(step)) - (await lossAt(-step))) - ((await lossAt(2 * step)) - (await lossAt(-2 * step)))) /
      (12 * step)
    // Adam's first moment after one step is (1 − β1) times the gradient.
    const expected = squares / (1 - settings.beta1)
    assert.ok(Math.abs(slope / expected - 1) < 5e-3, `${slope}, expected ${expected}`)
    await runtime.close()
  })
