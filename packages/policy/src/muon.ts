/**
 * Muon for hidden matrices and Adam for all other weights, as part of the training graph: one run of the graph returns
 * the next weights and moments. Muon applies Nesterov momentum, replaces the result by an approximation of the nearest
 * (semi-)orthogonal matrix (five Newton–Schulz steps of a quintic polynomial) and scales it by √max(1, rows/columns).
 * Source: Keller Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks", which gives the
 * coefficients A, B, C.
 */
import * as tf from './tensors.ts'
import type { TracedUpdate } from './pretraining.ts'
import type { InputSpec } from './runtime/backend.ts'
import { weightShapes } from './weights.ts'
import type { ModelConfig, WeightTensor } from './weights.ts'

const [A, B, C] = [3.4445, -4.775, 2.0315]

function orthogonalize(matrix: tf.Tensor2D): tf.Tensor2D {
  const tall = matrix.shape[0] > matrix.shape[1]
  let x: tf.Tensor2D = tf.div(matrix, tf.add(tf.sqrt(tf.sum(tf.square(matrix))), tf.scalar(1e-7)))
  for (let step = 0; step < 5; step++) {
    const gram = tall ? tf.matMul(x, x, true, false) : tf.matMul(x, x, false, true)
    const poly: tf.Tensor2D = tf.add(tf.mul(gram, tf.scalar(B)), tf.mul(tf.matMul(gram, gram), tf.scalar(C)))
    x = tf.add(tf.mul(x, tf.scalar(A)), tall ? tf.matMul(x, poly) : tf.matMul(poly, x))
  }
  return x
}

type MuonSettings = { momentum: number; beta1: number; beta2: number; eps: number }

/** Whether Muon updates the weight: it is a matrix and neither the embedding nor the head. Adam updates the others. */
function isMuon(name: string, shape: readonly number[]): boolean {
  return shape.length === 2 && name !== 'model.embed_tokens.weight' && name !== 'lm_head.weight'
}

/**
 * Inputs besides the weights: the learning rates `muon.rate` and `adam.rate` (scalars; `adamRate` includes the bias
 * correction), and the moments of each weight (`first:<name>`, for Adam also `second:<name>`; `zeroMoments` at the
 * start). Outputs: `weight:<name>`, `first:<name>`, `second:<name>`.
 */
export function muonAdam(config: ModelConfig, settings: MuonSettings): TracedUpdate {
  const shapes = weightShapes(config)
  const inputs: InputSpec[] = [
    { name: 'muon.rate', dtype: 'float32', shape: [] },
    { name: 'adam.rate', dtype: 'float32', shape: [] },
  ]
  for (const [name, shape] of shapes) {
    inputs.push({ name: `first:${name}`, dtype: 'float32', shape })
    if (!isMuon(name, shape)) inputs.push({ name: `second:${name}`, dtype: 'float32', shape })
  }
  return {
    inputs,
    build(input, weights, gradients) {
      const out: Record<string, tf.Tensor> = {}
      for (const [name, shape] of shapes) {
        const weight = weights.get(name) as tf.Tensor
        const gradient = gradients.get(name) as tf.Tensor
        const first = input(`first:${name}`)
        if (isMuon(name, shape)) {
          const momentum = tf.add(tf.mul(first, tf.scalar(settings.momentum)), gradient)
          const nesterov = tf.add(gradient, tf.mul(momentum, tf.scalar(settings.momentum))) as tf.Tensor2D
          const gain = Math.sqrt(Math.max(1, (shape[0] ?? 1) / (shape[1] ?? 1)))
          out[`weight:${name}`] = tf.sub(
            weight,
            tf.mul(tf.mul(orthogonalize(nesterov), tf.scalar(gain)), input('muon.rate')),
          )
          out[`first:${name}`] = momentum
        } else {
          const mean = tf.add(tf.mul(first, tf.scalar(settings.beta1)), tf.mul(gradient, tf.scalar(1 - settings.beta1)))
          const square = tf.add(
            tf.mul(input(`second:${name}`), tf.scalar(settings.beta2)),
            tf.mul(tf.square(gradient), tf.scalar(1 - settings.beta2)),
          )
          out[`weight:${name}`] = tf.sub(
            weight,
            tf.mul(tf.div(mean, tf.add(tf.sqrt(square), tf.scalar(settings.eps))), input('adam.rate')),
          )
          out[`first:${name}`] = mean
          out[`second:${name}`] = square
        }
      }
      return out
    },
  }
}

/** Adam's learning rate at step 1, 2, …, times the bias correction √(1 − β2^step) / (1 − β1^step). */
export function adamRate(rate: number, step: number, settings: MuonSettings): number {
  return (rate * Math.sqrt(1 - settings.beta2 ** step)) / (1 - settings.beta1 ** step)
}

/** Moments before the first step. */
export function zeroMoments(config: ModelConfig): Map<string, WeightTensor> {
  const moments = new Map<string, WeightTensor>()
  for (const [name, shape] of weightShapes(config)) {
    const size = shape.reduce((product, dimension) => product * dimension, 1)
    moments.set(`first:${name}`, { shape, data: new Float32Array(size) })
    if (!isMuon(name, shape)) moments.set(`second:${name}`, { shape, data: new Float32Array(size) })
  }
  return moments
}
