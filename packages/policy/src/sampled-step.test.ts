/** The embedded trainer under `sampledTokens`: its gradient against finite differences of the sampled loss. */
import { test } from 'node:test'
import assert from 'node:assert/strict'
import type { StepSettings, TrainItem } from '@instar/engine/port'
import { readAdam } from './adam.ts'
import { readAdapter } from './checkpoints/peft.ts'
import { completionLogprobs, ownLogprobs } from './forward.ts'
import { loraFrom, loraTensors } from './lora.ts'
import { uniform } from './random.ts'
import { createRuntime, type Runtime } from './runtime/runtime.ts'
import { sampledLoss } from './sampled-loss.ts'
import { Trainer } from './step.ts'
import { tokenWeights } from './token-weights.ts'
import { config, exampleItems, exampleSettings, exampleWeights } from '../../../test/kit/golden/policy/example.ts'

const settings: StepSettings = {
  ...exampleSettings,
  epochs: 1,
  maxGradNorm: 1e9,
  sequenceMask: 4,
  klWeight: 0.3,
  klFullAtAdvantage: 0,
  sampledTokens: 1,
}

const own = async (
  runtime: Runtime,
  item: TrainItem,
  slot: number | null,
  prompt = item.prompt,
): Promise<Float32Array> => {
  const [rows] = await completionLogprobs(runtime, [{ ...item, prompt, temperature: 1, slot }])
  return ownLogprobs(rows as Float32Array, item.completion)
}

/** A prompt with six more tokens under which the answer is less likely: other hints are dropped. */
const hinted = async (runtime: Runtime, item: TrainItem): Promise<number[]> => {
  const sum = (values: Float32Array): number => values.reduce((total, value) => total + value, 0)
  const without = sum(await own(runtime, item, null))
  for (let seed = 1; ; seed++) {
    const next = uniform(seed)
    const prompt = [...item.prompt, ...Array.from({ length: 6 }, () => Math.floor(next() * config.vocabulary))]
    if (sum(await own(runtime, item, null, prompt)) < without - 0.2) return prompt
  }
}

for (const form of ['hybrid', 'binary', 'opd'] as const)
  test(`${form}: the gradient of the adapter is that of finite differences of the sampled loss`, async () => {
    const runtime = await createRuntime({
      config,
      weights: exampleWeights(),
      base: 'example',
      engine: 'onnx',
      threads: 1,
    })
    const trainer = new Trainer(runtime, 'example')
    const items = await Promise.all(
      (await exampleItems(runtime)).map(async (item, at) => ({
        ...item,
        temperature: at % 2 === 0 ? 1 : item.temperature,
        advantage: form === 'opd' ? 0 : item.advantage,
        hintPrompt: form === 'binary' || !item.hintPrompt ? null : await hinted(runtime, item),
      })),
    )
    // An adapter whose B is not zero: after one update.
    const parent = await trainer.step(items, { ...settings, learningRate: 0.03 }, { adapter: null, state: null })
    const found = await trainer.step(items, settings, { adapter: parent.adapter, state: null })
    assert.equal(found.figures.temperedTurns, 5)
    assert.equal(found.figures.droppedHints, 0)
    assert.equal(found.figures.opdLoss > 0, form !== 'binary')
    assert.equal(found.figures.policyLoss !== 0, form !== 'opd')
    assert.ok(found.figures.klLoss > 0)
    const lora = readAdapter(parent.adapter, config)
    const tensors = loraTensors(config, lora)
    const gradients = readAdam(found.state, tensors).first

    runtime.setAdapterSlot(1, lora)
    const turns = await Promise.all(
      items.map(async (item) => {
        const [old, base, teacher] = [
          await own(runtime, item, 1),
          await own(runtime, item, null),
          item.hintPrompt && (await own(runtime, item, null, item.hintPrompt)),
        ]
        const behaviour = item.temperature === 1 ? item.behaviourLogprobs : old
        const hint = teacher ? { without: base, with: teacher } : null
        return {
          item,
          old,
          base,
          teacher,
          tokens: { advantage: item.advantage, behaviour, old, hint, subject: null, key: null },
        }
      }),
    )
    const weights = tokenWeights(
      turns.map(({ tokens }) => tokens),
      settings,
    )
    const lossAt = async (scale: number): Promise<number> => {
      const moved = new Map(
        [...tensors].map(([name, { shape, data }]) => [
          name,
          { shape, data: data.map((value, at) => value + scale * (gradients.get(name)?.[at] ?? 0)) },
        ]),
      )
      runtime.setAdapterSlot(2, loraFrom(config, lora.rank, lora.alpha, moved))
      const now = await Promise.all(items.map((item) => own(runtime, item, 2)))
      return sampledLoss(
        turns.map(({ item, old, base, teacher }, at) => ({
          advantage: item.advantage,
          weights: weights[at]!,
          old,
          now: now[at]!,
          base,
          teacher,
        })),
        settings,
      ).loss
    }
    assert.ok(Math.abs((await lossAt(0)) - found.figures.loss) < 1e-5)
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

test('a second epoch takes the log-probabilities of the adapter after the first', async () => {
  const runtime = await createRuntime({
    config,
    weights: exampleWeights(),
    base: 'example',
    engine: 'onnx',
    threads: 1,
  })
  const trainer = new Trainer(runtime, 'example')
  const items = await exampleItems(runtime)
  const none = { adapter: null, state: null }
  const first = await trainer.step(items, settings, none)
  const second = await trainer.step(items, { ...settings, epochs: 2 }, none)
  // From the state of one epoch, another one has old = now; within an update the first epoch's is old. Unclipped and with
  // equal importance weights both have the loss of the same adapter.
  const apart = await trainer.step(items, settings, { adapter: first.adapter, state: first.state })
  const values = (adapter: typeof first.adapter): number[] =>
    [...readAdapter(adapter, config).modules.values()].flatMap(({ a, b }) => [...a.data, ...b.data])
  const [twice, again, once] = [second.adapter, apart.adapter, first.adapter].map(values) as [
    number[],
    number[],
    number[],
  ]
  const distance = (a: number[], b: number[]): number => Math.hypot(...a.map((value, at) => value - b[at]!))
  assert.ok(distance(twice, again) < 0.2 * distance(twice, once), `${distance(twice, again)} ${distance(twice, once)}`)
  await runtime.close()
})
