import { test } from 'node:test'
import assert from 'node:assert/strict'
import * as tf from './tensors.ts'
import { initialLora, loraTensors } from './lora.ts'
import { initialWeights } from './initial.ts'
import { frozenConstants } from './parameters.ts'
import { uniform } from './random.ts'
import { referenceOf } from './references.ts'
import { openBackend } from './runtime/runtime.ts'
import { padded, rowBatches } from './forward.ts'
import { compileTraining } from './training.ts'
import type { MicroBatch } from './training.ts'
import { weightsFrom } from './weights.ts'
import type { ModelConfig, WeightTensor } from './weights.ts'

const config: ModelConfig = {
  hiddenSize: 16,
  intermediateSize: 24,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 6,
  vocabulary: 40,
  contextLength: 64,
  ropeTheta: 10000,
  rmsEps: 1e-6,
  qkNorm: true,
  attentionBias: false,
  tiedHead: true,
}
const constants = frozenConstants(config, weightsFrom(initialWeights(config, 2)))
const fixed = { rank: 3, alpha: 6, clipLow: 0.2, clipHigh: 0.28, topK: 0, opdForward: 0 }

/** An adapter whose B is not zero, so that A has a gradient too. */
function adapter(): Map<string, WeightTensor> {
  const next = uniform(8)
  const tensors = loraTensors(config, initialLora(config, fixed.rank, fixed.alpha, 1))
  for (const [name, tensor] of tensors)
    if (name.endsWith('lora_B')) for (let at = 0; at < tensor.data.length; at++) tensor.data[at] = 0.3 * (next() - 0.5)
  return tensors
}

type Parts = { policy: boolean; opd: boolean; kl: boolean; topK?: number; opdForward?: number }

function batch(parts: Parts): MicroBatch {
  const next = uniform(3)
  const [B, T] = [2, 9]
  const rows = [3, 4, 5, 6, 11, 12, 13]
  const distribution = (count: number): Float32Array => {
    const out = new Float32Array(count * config.vocabulary)
    for (let row = 0; row < count; row++) {
      const logits = Array.from({ length: config.vocabulary }, () => 2 * next())
      const total = Math.log(logits.reduce((sum, value) => sum + Math.exp(value), 0))
      logits.forEach((value, v) => {
        out[row * config.vocabulary + v] = value - total
      })
    }
    return out
  }
  return {
    B,
    T,
    rows,
    ids: Int32Array.from({ length: B * T }, () => Math.floor(next() * config.vocabulary)),
    targets: rows.map(() => Math.floor(next() * config.vocabulary)),
    inverseTemperature: rows.map((_, at) => (at < 4 ? 1 / 0.7 : 1)),
    old: rows.map(() => -4 + next()),
    advantage: rows.map((_, at) => (at < 4 ? 0.8 : -0.6)),
    weight: rows.map(() => (parts.policy ? 0.2 : 0)),
    opd: {
      places: parts.opd ? [0, 1, 2, 3] : [],
      reference: referenceOf(distribution(parts.opd ? 4 : 0), config.vocabulary, parts.topK ?? 0),
      weight_R: parts.opd ? [0.3, 0.2, 0.3, 0.1] : [],
    },
    kl: {
      places: parts.kl ? [0, 1, 2, 3, 4, 5, 6] : [],
      reference: referenceOf(distribution(parts.kl ? 7 : 0), config.vocabulary, parts.topK ?? 0),
      weight_R: parts.kl ? rows.map(() => 0.25) : [],
    },
  }
}

for (const parts of [
  { policy: true, opd: false, kl: false },
  { policy: false, opd: true, kl: false },
  { policy: false, opd: false, kl: true },
  { policy: true, opd: true, kl: true },
  { policy: false, opd: true, kl: false, topK: 6 },
  { policy: false, opd: true, kl: false, opdForward: 1 },
  { policy: false, opd: true, kl: false, topK: 6, opdForward: 1 },
  { policy: false, opd: true, kl: false, topK: 6, opdForward: 0.5 },
  { policy: false, opd: false, kl: true, topK: 6 },
  { policy: true, opd: true, kl: true, topK: 6 },
] as Parts[]) {
  const named = Object.entries(parts)
    .filter(([, on]) => on)
    .map(([name, value]) => (typeof value === 'number' ? `${name} ${value}` : name))
    .join(' + ')
  test(`the gradient of ${named} with respect to every adapter matrix matches finite differences`, async () => {
    const { backend } = await openBackend('onnx', 1)
    const training = await compileTraining(backend, config, constants, {
      ...fixed,
      topK: parts.topK ?? 0,
      opdForward: parts.opdForward ?? 0,
    })
    const tensors = adapter()
    const micro = batch(parts)
    const { gradients, loss, policyLoss, opdLoss, klLoss } = await training.run(tensors, micro)
    assert.ok(Math.abs(loss - policyLoss - opdLoss - klLoss) < 1e-5)
    for (const [on, value] of [
      [parts.policy, policyLoss],
      [parts.opd, opdLoss],
      [parts.kl, klLoss],
    ] as const)
      assert.equal(value !== 0, on)
    for (const [name, tensor] of tensors) {
      const gradient = gradients.get(name) as Float32Array
      const norm = Math.hypot(...gradient)
      assert.ok(norm > 0, `${name} has no gradient`)
      const step = 1e-2 / norm
      const at = async (sign: number): Promise<number> => {
        const moved = new Map(tensors)
        moved.set(name, {
          shape: tensor.shape,
          data: tensor.data.map((value, index) => value + sign * step * (gradient[index] as number)),
        })
        return (await training.run(moved, micro)).loss
      }
      const slope = (8 * ((await at(1)) - (await at(-1))) - ((await at(2)) - (await at(-2)))) / (12 * step)
      assert.ok(Math.abs(slope / norm ** 2 - 1) < 5e-3 + 2e-4 / norm, `${name}: ${slope}, expected ${norm ** 2}`)
    }
    await backend.dispose()
  })
}

for (const topK of [0, 6])
  test(`with topK ${topK} loss and gradients of onnx and wasm differ by less than 1e-5, gradients relative to their norm; wasm leaks no tensors`, async () => {
    const results = []
    for (const engine of ['onnx', 'wasm'] as const) {
      const { backend } = await openBackend(engine, 1)
      const training = await compileTraining(backend, config, constants, { ...fixed, topK })
      const run = () => training.run(adapter(), batch({ policy: true, opd: true, kl: true, topK }))
      results.push(await run())
      if (engine === 'wasm') {
        const before = tf.memory().numTensors
        for (let i = 0; i < 3; i++) await run()
        assert.equal(tf.memory().numTensors, before)
      }
      await backend.dispose()
    }
    const [onnx, wasm] = results as [
      Awaited<ReturnType<Awaited<ReturnType<typeof compileTraining>>['run']>>,
      Awaited<ReturnType<Awaited<ReturnType<typeof compileTraining>>['run']>>,
    ]
    for (const key of ['loss', 'policyLoss', 'opdLoss', 'klLoss'] as const)
      assert.ok(Math.abs(onnx[key] - wasm[key]) < 1e-5, key)
    for (const [name, gradient] of onnx.gradients) {
      const other = wasm.gradients.get(name) as Float32Array
      const difference = Math.hypot(...gradient.map((value, at) => value - (other[at] as number)))
      assert.ok(difference <= 1e-5 * Math.hypot(...gradient), name)
    }
  })

test('turns of a conversation in one row have the loss and the gradients of the turns in rows of their own', async () => {
  const { backend } = await openBackend('onnx', 1)
  const training = await compileTraining(backend, config, constants, fixed)
  const next = uniform(5)
  const ids = (count: number): number[] => Array.from({ length: count }, () => Math.floor(next() * config.vocabulary))
  const first = { prompt: ids(4), completion: ids(3), advantage: -0.6 }
  const second = {
    prompt: [...first.prompt, ...first.completion, ...ids(5)],
    completion: ids(4),
    advantage: 0.9,
  }
  const other = { prompt: ids(6), completion: ids(2), advantage: 0.2 }
  const turns = [first, other, second]
  const batchOf = (part: readonly (typeof first)[]): MicroBatch => {
    const { ids: input, B, T, places } = padded(part)
    const targets = part.flatMap(({ completion }) => completion)
    const none = { places: [], reference: { ids: null, logp: new Float32Array() }, weight_R: [] }
    return {
      B,
      T,
      ids: input,
      rows: places,
      targets,
      inverseTemperature: targets.map(() => 1 / 0.7),
      old: targets.map(() => -3.5),
      advantage: part.flatMap(({ completion, advantage }) => completion.map(() => advantage)),
      weight: targets.map(() => 0.1),
      opd: none,
      kl: none,
    }
  }
  const together = batchOf(turns)
  assert.deepEqual([together.B, together.T], [2, 4 + 3 + 5 + 4 - 1])
  const tensors = adapter()
  const shared = await training.run(tensors, together)
  const apart: Awaited<ReturnType<typeof training.run>>[] = []
  for (const turn of turns) apart.push(await training.run(tensors, batchOf([turn])))
  const near = (a: number, b: number, what: string): void =>
    assert.ok(Math.abs(a - b) <= 2e-6 + 2e-5 * Math.abs(b), `${what}: ${a}, apart ${b}`)
  near(
    shared.loss,
    apart.reduce((sum, { loss }) => sum + loss, 0),
    'loss',
  )
  const logp = apart.flatMap((one) => [...one.logp])
  shared.logp.forEach((value, at) => near(value, logp[at] as number, `log-prob ${at}`))
  for (const [name, gradient] of shared.gradients)
    gradient.forEach((value, at) =>
      near(
        value,
        apart.reduce((sum, one) => sum + one.gradients.get(name)![at]!, 0),
        name,
      ),
    )
  await backend.dispose()
})

test('a row is shared by prefixes of the same adapter alone, and items of one row are in one micro-batch', () => {
  const long = { prompt: [1, 2, 3, 4], completion: [5, 6] }
  const part = { prompt: [1, 2], completion: [3, 9] }
  const unlike = { prompt: [1, 2, 9], completion: [3] }
  assert.deepEqual(padded([part, long, unlike]).counts, [5, 3])
  assert.deepEqual(padded([{ ...part, slot: 0 }, long]).counts, [5, 3])
  const { ids, T, places } = padded([part, long])
  assert.deepEqual([...ids], [1, 2, 3, 4, 5])
  assert.deepEqual([T, places], [5, [1, 2, 3, 4]])
  const lengths = rowBatches([part, unlike, long], (one) => one, 5).map((group) =>
    group.map((one) => one.prompt.length),
  )
  assert.deepEqual(lengths, [[4, 2], [3]])
})
