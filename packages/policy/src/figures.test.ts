import { test } from 'node:test'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { adamStep, globalNorm, initialAdam } from './adam.ts'
import { frozenConstants, trainedInputs } from './parameters.ts'
import { compilePretraining } from './pretraining.ts'
import { createRuntime } from './runtime/runtime.ts'
import { findBuilt } from './runtime/tfjs-node/build-folder.ts'
import { compileTraining } from './training.ts'
import { weightShapes, weightsFrom } from './weights.ts'
import type { ModelConfig, WeightTensor } from './weights.ts'

type Summary = { norm: number; first: number[] }
type Figures = {
  config: ModelConfig
  logits: number[][]
  pretraining: { loss: number; gradients: Record<string, Summary> }
  adapter: {
    rank: number
    alpha: number
    logp: number[]
    old: number[]
    teacher: number[][]
    base: number[][]
    importance: number[]
    loss: number
    policy: number
    opd: number
    kl: number
    norm: number
    gradients: Record<string, Summary>
    afterTwoSteps: Record<string, Summary>
  }
  rehearsal: { base: number[][]; loss: number; gradients: Record<string, Summary> }
}
const stored = JSON.parse(
  readFileSync(new URL('../../../test/kit/golden/policy/figures.json', import.meta.url), 'utf8'),
) as Record<string, Figures>

/** The formula of make.py. */
function numbers(shape: readonly number[], tensor: number, scale: number, offset = 0): WeightTensor {
  const count = shape.reduce((product, size) => product * size, 1)
  return {
    shape,
    data: Float32Array.from(
      { length: count },
      (_, i) => ((((i + 1) * 2654435761 + tensor * 40503) % 2 ** 32) / 2 ** 32 - 0.5) * scale + offset,
    ),
  }
}

function weightsOf(config: ModelConfig): Map<string, WeightTensor> {
  return new Map(
    weightShapes(config).map(([name, shape], at) => [
      name,
      name.endsWith('norm.weight') ? numbers(shape, at, 0.2, 1) : numbers(shape, at, 0.8),
    ]),
  )
}

const ids = Int32Array.from([3, 17, 9, 22, 5, 11, 28, 8, 1, 26, 14, 19, 2, 7])

function near(actual: number, expected: number, tolerance: number, what: string): void {
  assert.ok(Math.abs(actual - expected) <= tolerance, `${what}: ${actual}, PyTorch ${expected}`)
}

/** Relative to the norm of the tensor. */
function same(actual: ArrayLike<number>, expected: Summary, tolerance: number, what: string): void {
  near(Math.hypot(...Array.from(actual)), expected.norm, tolerance * expected.norm, `${what}: norm`)
  expected.first.forEach((value, at) => {
    near(actual[at] as number, value, tolerance * expected.norm, `${what}[${at}]`)
  })
}

const unbuilt = findBuilt() ? false : 'the engine tfjs-node is not built here (npm run engine:tfjs-node)'

for (const [name, figures] of Object.entries(stored)) {
  for (const engine of ['onnx', 'wasm', 'tfjs-node'] as const) {
    /** For gradients relative to the norm of the matrix; for other values the stated tolerance. */
    const within = (others: number): number => (engine === 'tfjs-node' ? 1e-5 : others)
    const options = { skip: engine === 'tfjs-node' && unbuilt }
    const { config, adapter: expected } = figures
    test(`${name} on ${engine}: logits equal those of PyTorch within 2e-5`, options, async () => {
      const runtime = await createRuntime({
        config,
        weights: weightsFrom(weightsOf(config)),
        base: name,
        engine,
        threads: 1,
      })
      const { logits } = await runtime.decodeStep({
        ids,
        T: 7,
        cache: runtime.createCache(2),
        rowSlots: [null, null],
        logits: 'all',
      })
      figures.logits.forEach((row, at) => {
        row.forEach((value, v) => {
          near(logits[(7 + 4 + at) * config.vocabulary + v] as number, value, 2e-5, `logit ${at},${v}`)
        })
      })
      await runtime.close()
    })

    test(
      `${name} on ${engine}: loss and gradients of all weights equal those of PyTorch within 2e-5`,
      options,
      async () => {
        const weights = weightsOf(config)
        const runtime = await createRuntime({ config, weights: weightsFrom(weights), base: name, engine, threads: 1 })
        const training = await compilePretraining(runtime.backend, config)
        const tokenWeights = Float32Array.from({ length: 14 }, (_, at) => (at % 7 === 6 ? 0 : at >= 11 ? 3 : 1))
        const { loss, outputs } = await training.step(weights, { B: 2, T: 7, ids, tokenWeights })
        near(loss, figures.pretraining.loss, 1e-5, 'loss')
        for (const [key, gradient] of Object.entries(figures.pretraining.gradients))
          same(outputs[key]?.data ?? [], gradient, within(2e-5), key)
        await runtime.close()
      },
    )

    test(
      `${name} on ${engine}: the hybrid loss, its gradients and two Adam steps equal those of PyTorch within 5e-5`,
      options,
      async () => {
        const constants = frozenConstants(config, weightsFrom(weightsOf(config)))
        const runtime = await createRuntime({
          config,
          weights: weightsFrom(weightsOf(config)),
          base: name,
          engine,
          threads: 1,
        })
        const training = await compileTraining(runtime.backend, config, constants, {
          rank: expected.rank,
          alpha: expected.alpha,
          clipLow: 0.2,
          clipHigh: 0.28,
          topK: 0,
        })
        // Inputs in the order of make.py: layer by layer, q k v o gate up down, A before B.
        const lora = new Map(
          trainedInputs(config, expected.rank).map((spec, at): [string, WeightTensor] => [
            spec.name,
            numbers(spec.shape as number[], 1000 + at, 0.6),
          ]),
        )
        const rows = [3, 4, 5, 9, 10, 11, 12]
        const result = await training.run(lora, {
          B: 2,
          T: 7,
          ids,
          rows,
          targets: rows.map((row) => ids[row + 1] as number),
          inverseTemperature: rows.map((_, at) => (at < 3 ? 1 / 0.7 : 1)),
          old: expected.old,
          advantage: rows.map((_, at) => (at < 3 ? 0.8 : -0.6)),
          weight: expected.importance,
          opd: {
            places: [3, 4, 5, 6],
            reference: { ids: null, logp: Float32Array.from(expected.teacher.flat()) },
            weight_R: [1, 1, 1, 1].map(() => 0.9 / 4),
          },
          kl: {
            places: rows.map((_, at) => at),
            reference: { ids: null, logp: Float32Array.from(expected.base.flat()) },
            weight_R: rows.map(() => 0.3 / 7),
          },
        })
        expected.logp.forEach((value, at) => {
          near(result.logp[at] as number, value, 2e-5, `log-prob ${at}`)
        })
        for (const [actual, wanted, what] of [
          [result.policyLoss, expected.policy, 'policy'],
          [result.opdLoss, expected.opd, 'OPD'],
          [result.klLoss, expected.kl, 'KL'],
          [result.loss, expected.loss, 'loss'],
        ] as const)
          near(actual, wanted, 1e-5, what)
        for (const [key, gradient] of Object.entries(expected.gradients))
          same(result.gradients.get(key) ?? [], gradient, within(5e-5), key)
        const norm = globalNorm(result.gradients)
        near(norm, expected.norm, 5e-5 * expected.norm, 'norm of all gradients')
        const state = initialAdam(lora)
        const settings = { learningRate: 3e-3, beta1: 0.9, beta2: 0.95 }
        for (let step = 0; step < 2; step++)
          adamStep(lora, result.gradients, norm > 0.5 ? 0.5 / norm : 1, state, settings)
        for (const [key, tensor] of Object.entries(expected.afterTwoSteps))
          same(lora.get(key)?.data ?? [], tensor, 5e-5, `${key} after two steps`)
        await runtime.close()
      },
    )

    test(
      `${name} on ${engine}: the term of rehearsal and its gradients equal those of PyTorch within 5e-5`,
      options,
      async () => {
        const weights = weightsFrom(weightsOf(config))
        const runtime = await createRuntime({ config, weights, base: name, engine, threads: 1 })
        const training = await compileTraining(runtime.backend, config, frozenConstants(config, weights), {
          rank: expected.rank,
          alpha: expected.alpha,
          clipLow: 0.2,
          clipHigh: 0.28,
          topK: 0,
          opdForward: 1,
        })
        const lora = new Map(
          trainedInputs(config, expected.rank).map((spec, at): [string, WeightTensor] => [
            spec.name,
            numbers(spec.shape as number[], 1000 + at, 0.6),
          ]),
        )
        const rows = [3, 4, 5, 9, 10, 11, 12]
        const zeros = rows.map(() => 0)
        const { base, loss, gradients } = figures.rehearsal
        const result = await training.run(lora, {
          B: 2,
          T: 7,
          ids,
          rows,
          targets: rows.map((row) => ids[row + 1] as number),
          inverseTemperature: rows.map(() => 1),
          old: zeros,
          advantage: zeros,
          weight: zeros,
          opd: {
            places: rows.map((_, at) => at),
            reference: { ids: null, logp: Float32Array.from(base.flat()) },
            weight_R: rows.map(() => 1.5 / 7),
          },
          kl: { places: [], reference: { ids: null, logp: new Float32Array() }, weight_R: [] },
        })
        near(result.loss, loss, 1e-5, 'loss')
        for (const [key, gradient] of Object.entries(gradients))
          same(result.gradients.get(key) ?? [], gradient, within(5e-5), key)
        await runtime.close()
      },
    )
  }
}
