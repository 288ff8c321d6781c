import { test } from 'node:test'
import assert from 'node:assert/strict'
import { createOnnxBackend } from './runtime/onnx.ts'
import { compilePretraining } from './pretraining.ts'
import { initialWeights } from './initial.ts'
import { uniform } from './random.ts'
import type { ModelConfig, WeightTensor } from './weights.ts'

const base: ModelConfig = {
  hiddenSize: 12,
  intermediateSize: 20,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 6,
  vocabulary: 30,
  contextLength: 64,
  ropeTheta: 10000,
  rmsEps: 1e-6,
  qkNorm: false,
  attentionBias: false,
  tiedHead: false,
}

/** Initial weights with noise, so that biases are not 0 and norms are not 1. */
function noisyWeights(config: ModelConfig): Map<string, WeightTensor> {
  const next = uniform(5)
  const weights = initialWeights(config, 3)
  for (const tensor of weights.values())
    for (let at = 0; at < tensor.data.length; at++) tensor.data[at] = (tensor.data[at] ?? 0) + 0.4 * (next() - 0.5)
  return weights
}

for (const [name, config] of [
  ['Llama', base],
  ['Qwen2.5', { ...base, attentionBias: true, tiedHead: true }],
  ['Qwen3', { ...base, qkNorm: true, tiedHead: true }],
] as const) {
  test(`${name}: the gradient of every weight matches finite differences`, async () => {
    const backend = await createOnnxBackend({ threads: 1 })
    const training = await compilePretraining(backend, config)
    const weights = noisyWeights(config)
    const next = uniform(9)
    for (const [B, T] of [
      [3, 7],
      [2, 5],
    ] as const) {
      const ids = Int32Array.from({ length: B * T }, () => Math.floor(next() * config.vocabulary))
      const tokenWeights = Float32Array.from({ length: B * T }, (_, at) =>
        (at + 1) % T === 0 ? 0 : at % 3 === 0 ? 3 : 1,
      )
      const batch = { B, T, ids, tokenWeights }
      const { outputs, tokens } = await training.step(weights, batch)
      assert.equal(tokens, B * (T - 1))
      for (const [key, tensor] of weights) {
        const gradient = outputs[key]
        assert.ok(gradient, key)
        assert.deepEqual(gradient.shape, tensor.shape, key)
        // The derivative of the loss along the gradient is its squared norm.
        const norm = Math.hypot(...gradient.data)
        const step = 4e-3 / norm
        const at = async (sign: number): Promise<number> => {
          const moved = new Map(weights)
          moved.set(key, {
            shape: tensor.shape,
            data: tensor.data.map((value, index) => value + sign * step * (gradient.data[index] ?? 0)),
          })
          return (await training.step(moved, batch)).loss
        }
        // The four-point formula has an error of fourth order; the loss in float32 does not allow a small step.
        const slope = (8 * ((await at(1)) - (await at(-1))) - ((await at(2)) - (await at(-2)))) / (12 * step)
        assert.ok(
          Math.abs(slope / norm ** 2 - 1) < 5e-3 + 1e-4 / norm,
          `${key} [${B}, ${T}]: ${slope}, expected ${norm ** 2}`,
        )
      }
    }
    await backend.dispose()
  })
}
