import { test } from 'node:test'
import assert from 'node:assert/strict'
import { turnScales, tokenWeights } from './token-weights.ts'
import type { TurnTokens } from './token-weights.ts'
import { adapterDistance, readAdapter } from './checkpoints/peft.ts'
import { divergenceMeter } from './divergence.ts'
import { createRuntime } from './runtime/runtime.ts'
import { Trainer } from './step.ts'
import { exceeds, largestScale, withinBounds } from './trust-region.ts'
import type { WeightTensor } from './weights.ts'
import { config, exampleItems, exampleSettings, exampleWeights } from '../../../test/kit/golden/policy/example.ts'

const none = { adapter: null, state: null }

const trial = (curve: (scale: number) => number, scale: number): { scale: number; value: number; at: null } => ({
  scale,
  value: curve(scale),
  at: null,
})

test('the largest scale within a bound is found to within a quarter of it, whatever the curve', async () => {
  const curves: [name: string, curve: (scale: number) => number, exact: number][] = [
    ['quadratic', (s) => 4 * s * s, 0.5],
    ['linear', (s) => 10 * s, 0.1],
    ['steep', (s) => 2 * s ** 4, 2 ** -0.25],
    ['with a threshold', (s) => (s < 0.3 ? 0.1 * s : 50), 0.3],
  ]
  for (const [name, curve, exact] of curves) {
    let measured = 0
    const found = await largestScale(1, trial(curve, 1), (scale) => {
      measured++
      return Promise.resolve(trial(curve, scale))
    })
    assert.ok(found && found.value <= 1 && found.value === curve(found.scale), `${name}: ${JSON.stringify(found)}`)
    assert.ok(found.scale > 0.75 * exact && found.scale <= exact, `${name}: ${found.scale}, the largest is ${exact}`)
    assert.ok(measured <= 5, `${name}: ${measured} measurements`)
  }
})

test('a step within the bound is taken whole without a measurement; one that is never within it is not found', async () => {
  const unexpected = (): never => assert.fail('measured')
  assert.deepEqual(
    await largestScale(
      1,
      trial(() => 0.2, 1),
      unexpected,
    ),
    { scale: 1, value: 0.2, at: null },
  )
  const never = (): number => Infinity
  assert.equal(await largestScale(1, trial(never, 1), (scale) => Promise.resolve(trial(never, scale))), null)
})

test('the bound to the base draws the adapter towards the base before the bound to the parent limits the step', async () => {
  const tensor = (value: number): Map<string, WeightTensor> =>
    new Map([
      ['m.lora_A', { shape: [1], data: Float32Array.of(1) }],
      ['m.lora_B', { shape: [1], data: Float32Array.of(value) }],
    ])
  const b = (tensors: ReadonlyMap<string, WeightTensor>): number => tensors.get('m.lora_B')?.data[0] ?? NaN
  const measure = (tensors: ReadonlyMap<string, WeightTensor>): Promise<{ parent: number; base: number }> =>
    Promise.resolve({ parent: (b(tensors) - 1) ** 2, base: b(tensors) ** 2 })
  const bound = async (bounds: { parent: number; base: number }): ReturnType<typeof withinBounds> =>
    withinBounds({ parent: tensor(1), base: null }, tensor(3), await measure(tensor(3)), bounds, measure)
  const free = await bound({ parent: 4, base: 9 })
  assert.deepEqual([b(free.tensors), free.stepScale, free.baseScale], [3, 1, 1])
  const step = await bound({ parent: 1, base: 9 })
  assert.ok(step.divergences.parent <= 1 && step.divergences.parent > 0.8, `${step.divergences.parent}`)
  assert.ok(Math.abs(b(step.tensors) - (1 + 2 * step.stepScale)) < 1e-6 && step.baseScale === 1)
  const base = await bound({ parent: 4, base: 4 })
  assert.ok(base.divergences.base <= 4 && base.divergences.base > 3.2, `${base.divergences.base}`)
  assert.ok(base.stepScale === 1 && Math.abs(b(base.tensors) - 3 * base.baseScale) < 1e-6)
  assert.equal(base.tensors.get('m.lora_A')?.data[0], 1)
  const both = await bound({ parent: 0.25, base: 4 })
  assert.ok(!exceeds(both.divergences, { parent: 0.25, base: 4 }) && both.stepScale < 1 && both.baseScale < 1)
  const nowhere = (): Promise<{ parent: number; base: number }> => Promise.resolve({ parent: Infinity, base: Infinity })
  const none = await withinBounds(
    { parent: tensor(1), base: null },
    tensor(3),
    await nowhere(),
    { parent: 1, base: 9 },
    nowhere,
  )
  assert.deepEqual(
    [b(none.tensors), none.stepScale, none.baseScale],
    [1, 0, 0],
    'nothing is within a bound: the parent',
  )
})

test('an update ends within its bounds by measurement, and its bytes are equal each time', async () => {
  const runtime = await createRuntime({
    config,
    weights: exampleWeights(),
    base: 'example',
    engine: 'onnx',
    threads: 1,
  })
  const trainer = new Trainer(runtime, 'example')
  const items = await exampleItems(runtime)
  const settings = { ...exampleSettings, learningRate: 3e-2, epochs: 3 }
  const measured = async (adapter: Parameters<typeof readAdapter>[0]): Promise<{ parent: number; base: number }> => {
    const divergence = await divergenceMeter(
      runtime,
      items,
      { parent: null, base: null },
      exampleSettings.microBatchTokens,
    )
    runtime.setAdapterSlot(8, readAdapter(adapter, config))
    return divergence(8)
  }
  const free = await trainer.step(items, settings, none)
  const whole = await measured(free.adapter)
  assert.ok(whole.parent > 0.008, `the free step moves ${whole.parent} nats a token`)
  assert.deepEqual([free.figures.stepScale, free.figures.klParent], [undefined, undefined])
  const bounded = { ...settings, klParentMax: 0.002, klBaseMax: 1 }
  const held = await trainer.step(items, bounded, none)
  const divergences = await measured(held.adapter)
  assert.ok(divergences.parent <= 0.002 && divergences.parent > 0.0014, `${divergences.parent}`)
  assert.ok(Math.abs(divergences.parent - (held.figures.klParent ?? NaN)) < 1e-6)
  assert.ok((held.figures.stepScale ?? 1) < 1 && held.figures.steps < 3, 'no epoch follows one that is beyond a bound')
  assert.equal((await trainer.step(items, bounded, none)).adapter.sha256, held.adapter.sha256)
  const wide = await trainer.step(items, { ...settings, klParentMax: 1e6, klBaseMax: 1e6 }, none)
  assert.equal(wide.adapter.sha256, free.adapter.sha256, 'a bound that is not reached changes nothing')
  assert.deepEqual([wide.figures.stepScale, wide.figures.baseScale], [1, 1])
  const near = await trainer.step(items, { ...settings, klBaseMax: 0.003 }, none)
  assert.ok((near.figures.klBase ?? 1) <= 0.003 && (near.figures.baseScale ?? 1) < 1)
  await runtime.close()
})

const turn = (tokens: number, advantage: number, hinted: boolean): TurnTokens => ({
  advantage,
  behaviour: new Float32Array(tokens).fill(-1),
  old: new Float32Array(tokens).fill(-1),
  hint: hinted ? { without: new Float32Array(tokens).fill(-1), with: new Float32Array(tokens).fill(-2) } : null,
})
const settings = { ...exampleSettings, klWeight: 1, klFullAtAdvantage: 0 }
const sum = (values: ArrayLike<number>): number => Array.from(values).reduce((a, b) => a + b, 0)

test('a turn of 2,000 tokens beside fifteen of 20 holds 4/19 of the policy loss under turnFactor 4', () => {
  const turns = [turn(2000, 1, false), ...Array.from({ length: 15 }, () => turn(20, 1, false))]
  const plain = tokenWeights(turns, settings)
  assert.ok(Math.abs(sum(plain[0]?.policy ?? []) - 2000 / 2300) < 1e-5)
  const limited = tokenWeights(turns, { ...settings, turnFactor: 4 })
  assert.ok(Math.abs(sum(limited[0]?.policy ?? []) - 80 / 380) < 1e-5)
  assert.ok(Math.abs((limited[0]?.kl ?? 0) * 2000 - 80 / 380) < 1e-6)
  assert.ok(Math.abs(limited.reduce((total, { policy }) => total + sum(policy), 0) - 1) < 1e-5, 'it stays a mean')
  assert.deepEqual(turnScales([1, 8, 2], 2), [1, 0.5, 1])
})

test('a lone hinted turn of 16 has the weight of a rewarded one under opdOverBatch, 16 times as much without', () => {
  const turns = [turn(20, -1, true), ...Array.from({ length: 15 }, () => turn(20, 1, false))]
  const [alone] = tokenWeights(turns, settings)
  const [shared] = tokenWeights(turns, { ...settings, opdOverBatch: 1 })
  assert.ok(Math.abs((alone?.opd ?? 0) - 1 / 20) < 1e-9)
  assert.ok(Math.abs((shared?.opd ?? 0) - 1 / 320) < 1e-9)
  assert.ok(Math.abs((shared?.opd ?? 0) - (shared?.policy[0] ?? 0)) < 1e-8)
  const long = [turn(200, -1, true), turn(20, -1, true), ...Array.from({ length: 6 }, () => turn(20, 1, false))]
  const [first, second] = tokenWeights(long, { ...settings, opdOverBatch: 1, turnFactor: 4 })
  assert.ok(Math.abs((first?.opd ?? 0) * 200 + (second?.opd ?? 0) * 20 - 2 / 8) < 1e-6, 'hinted over batch in all')
  assert.ok(Math.abs((first?.opd ?? 0) * 200 - 4 * (second?.opd ?? 0) * 20) < 1e-6)
})

test('an adapter that is a part of the base is what KL is measured to, and what an update is drawn towards', async () => {
  const runtime = await createRuntime({
    config,
    weights: exampleWeights(),
    base: 'example',
    engine: 'onnx',
    threads: 1,
  })
  const trainer = new Trainer(runtime, 'example')
  const items = await exampleItems(runtime)
  const settings = { ...exampleSettings, learningRate: 3e-2, epochs: 3 }
  const imported = (await trainer.step(items, settings, none)).adapter
  const bounds = { ...settings, klParentMax: 1, klBaseMax: 0.002 }
  const alone = await trainer.step(items, bounds, { adapter: imported, state: null })
  const { adapter, figures } = await trainer.step(items, bounds, { adapter: imported, state: null, base: imported })
  // Parent and base are the same adapter: the divergences are one number.
  assert.equal(figures.klBase, figures.klParent)
  assert.ok(figures.klBase! <= 0.002 && figures.klBase! > 0.0014, `${figures.klBase}`)
  assert.ok(adapterDistance(adapter.weights, imported.weights) < 0.3)
  assert.ok(
    alone.figures.klParent! > 1.5 * figures.klParent!,
    `drawn back to the weights alone: ${alone.figures.klParent}`,
  )
  // Where hardly a step is within the bound, the result is the base's adapter.
  const held = await trainer.step(
    items,
    { ...settings, klParentMax: 1, klBaseMax: 1e-12 },
    { adapter: imported, state: null, base: imported },
  )
  assert.ok(adapterDistance(held.adapter.weights, imported.weights) < 1e-3)
  await runtime.close()
})
