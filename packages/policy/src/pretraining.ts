/** Training of all weights by next-token cross-entropy (used to make models/tiny). */
import * as tf from './tensors.ts'
import { MASKED, attendWithin, decode, head, ropeTable } from './model.ts'
import { trainedParameters } from './parameters.ts'
import type { Backend, Compiled, Feeds, InputSpec, Program, TensorData } from './runtime/backend.ts'
import { weightShapes } from './weights.ts'
import type { ModelConfig, WeightTensor } from './weights.ts'

/** Σ_n weight_n · −log softmax(logits_n)[target_n], in nats; differentiable with respect to the logits only. */
function crossEntropy(logits_NV: tf.Tensor2D, targets_N: tf.Tensor1D, weights_N: tf.Tensor1D): tf.Scalar {
  const V = logits_NV.shape[1]
  const op = tf.customGrad((...args: (tf.Tensor | tf.GradSaveFunc)[]) => {
    const [z, save] = args as [tf.Tensor2D, tf.GradSaveFunc]
    const shifted = tf.sub(z, tf.max(z, 1, true)) as tf.Tensor2D
    const exp = tf.exp(shifted)
    const total = tf.sum(exp, 1, true)
    const picked = tf.gather(shifted, tf.reshape(targets_N, [-1, 1]) as tf.Tensor2D, 1, 1)
    const nll_N = tf.reshape(tf.sub(tf.log(total), picked), [-1])
    save([tf.div(exp, total)])
    return {
      value: tf.sum(tf.mul(nll_N, weights_N)),
      gradFunc: (dy: tf.Tensor, saved: tf.Tensor[]) => {
        const difference = tf.sub(saved[0] as tf.Tensor2D, tf.oneHot(targets_N, V, 1, 0, 'float32'))
        return tf.mul(difference, tf.mul(tf.reshape(weights_N, [-1, 1]), dy))
      },
    }
  })
  return op(logits_NV) as tf.Scalar
}

/**
 * An optimizer that runs in the same graph. `build` gets the weights and their gradients and returns the outputs of the
 * step, in place of the gradients. `inputs` must have fixed sizes.
 */
export type TracedUpdate = {
  inputs: readonly InputSpec[]
  build(
    input: (name: string) => tf.Tensor,
    weights: ReadonlyMap<string, tf.Tensor>,
    gradients: ReadonlyMap<string, tf.Tensor>,
  ): Record<string, tf.Tensor>
}

/**
 * `ids` [B·T], rows padded on the right. `tokenWeights` [B·T]: the weight of the prediction of the next token at each
 * position (0: not trained; ignored at the last position of a row). The weights are divided by their sum.
 */
export type PretrainingBatch = { B: number; T: number; ids: Int32Array; tokenWeights: Float32Array }

/**
 * `outputs`: gradients by weight name, or the outputs of the traced update. `loss`: weighted mean in nats per token.
 */
type PretrainingResult = {
  loss: number
  tokens: number
  outputs: Record<string, { shape: number[]; data: Float32Array }>
}

type Pretraining = {
  step(weights: ReadonlyMap<string, WeightTensor>, batch: PretrainingBatch, extra?: Feeds): Promise<PretrainingResult>
  dispose(): Promise<void>
}

function program(config: ModelConfig, update: TracedUpdate | null): Program {
  const shapes = weightShapes(config)
  return {
    name: 'pretraining',
    inputs: [
      { name: 'ids', dtype: 'int32', shape: ['B', 'T'] },
      { name: 'cos', dtype: 'float32', shape: [1, 1, 'T', config.headDim] },
      { name: 'sin', dtype: 'float32', shape: [1, 1, 'T', config.headDim] },
      { name: 'causal', dtype: 'float32', shape: ['T', 'T'] },
      { name: 'rows', dtype: 'int32', shape: ['N'] },
      { name: 'targets', dtype: 'int32', shape: ['N'] },
      { name: 'weights', dtype: 'float32', shape: ['N'] },
      ...shapes.map(([name, shape]): InputSpec => ({ name, dtype: 'float32', shape })),
      ...(update?.inputs ?? []),
    ],
    constants: new Map<string, TensorData>(),
    build(input) {
      const ids = input('ids')
      const [B, T] = ids.shape as [number, number]
      const names = shapes.map(([name]) => name)
      const forward = (...tensors: tf.Tensor[]): tf.Scalar => {
        const byName = new Map(names.map((name, at) => [name, tensors[at] as tf.Tensor]))
        const parameters = trainedParameters(config, (name) => byName.get(name) ?? input(name))
        const sequence = { config, B, T, cos: input('cos'), sin: input('sin') }
        const hidden_ND = decode(ids, sequence, parameters, attendWithin(sequence, input('causal'), null))
        const picked = tf.gather(hidden_ND, input('rows') as tf.Tensor1D) as tf.Tensor2D
        return crossEntropy(
          head(picked, config, parameters),
          input('targets') as tf.Tensor1D,
          input('weights') as tf.Tensor1D,
        )
      }
      const { value, grads } = tf.valueAndGrads(forward)(names.map((name) => input(name)))
      const gradients = new Map(names.map((name, at) => [name, grads[at] as tf.Tensor]))
      if (update)
        return { loss: value, ...update.build(input, new Map(names.map((name) => [name, input(name)])), gradients) }
      return {
        loss: value,
        ...Object.fromEntries([...gradients].map(([name, gradient]) => [`gradient:${name}`, gradient])),
      }
    },
  }
}

/** Additive causal mask [T, T]: 0 on and below the diagonal, `MASKED` above. */
export function causalMask(T: number): TensorData {
  const data = new Float32Array(T * T)
  for (let t = 0; t < T; t++) data.fill(MASKED, t * T + t + 1, (t + 1) * T)
  return { shape: [T, T], data }
}

/** Compiles the program; one compilation serves batches of any B and T. */
export async function compilePretraining(
  backend: Backend,
  config: ModelConfig,
  update: TracedUpdate | null = null,
): Promise<Pretraining> {
  const compiled: Compiled = await backend.compile(program(config, update))
  const table = ropeTable(config, config.contextLength)
  const d = config.headDim
  return {
    async step(weights, batch, extra = {}) {
      const { B, T, ids, tokenWeights } = batch
      const rows: number[] = []
      for (let at = 0; at < B * T; at++) if ((tokenWeights[at] ?? 0) !== 0 && (at + 1) % T !== 0) rows.push(at)
      const sum = rows.reduce((total, at) => total + (tokenWeights[at] ?? 0), 0)
      const feeds: Feeds = {
        ids: { shape: [B, T], data: ids },
        cos: { shape: [1, 1, T, d], data: table.cos.subarray(0, T * d) },
        sin: { shape: [1, 1, T, d], data: table.sin.subarray(0, T * d) },
        causal: causalMask(T),
        rows: { shape: [rows.length], data: Int32Array.from(rows) },
        targets: { shape: [rows.length], data: Int32Array.from(rows, (at) => ids[at + 1] ?? 0) },
        weights: { shape: [rows.length], data: Float32Array.from(rows, (at) => (tokenWeights[at] ?? 0) / sum) },
        ...extra,
      }
      for (const [name, tensor] of weights) feeds[name] = tensor
      const { loss, ...outputs } = await compiled.run(feeds)
      return {
        loss: loss?.data[0] ?? NaN,
        tokens: rows.length,
        outputs: Object.fromEntries(
          Object.entries(outputs).map(([name, value]) => [name.replace(/^gradient:/, ''), value]),
        ),
      }
    },
    dispose: () => compiled.dispose(),
  }
}
