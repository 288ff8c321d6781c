/** The hybrid loss and its gradient with respect to one adapter, as one program for micro-batches of any size. */
import * as tf from './tensors.ts'
import { hybridLoss } from './loss.ts'
import { attendWithin, decode, head, ropeTable } from './model.ts'
import { frozenParameters, trainedDelta, trainedInputs } from './parameters.ts'
import { causalMask } from './pretraining.ts'
import { isReduced } from './references.ts'
import type { Reference } from './references.ts'
import type { Backend, Compiled, Feeds, InputSpec, Program, TensorData } from './runtime/backend.ts'
import type { ModelConfig, WeightTensor } from './weights.ts'

/**
 * Values that are compiled into the program; each combination needs a compilation of its own. `topK`: of the references
 * (references.ts); 0: whole distributions. `opdForward`: as in loss.ts.
 */
type TrainingConstants = {
  rank: number
  alpha: number
  clipLow: number
  clipHigh: number
  topK: number
  /** Absent: 0. */
  opdForward?: number
}

/** Rows of a KL term: indices into the N tokens of the micro-batch, their references, weights [R]. */
type ReferenceRows = { places: number[]; reference: Reference; weight_R: number[] }

/**
 * A micro-batch. `ids` [B·T] is padded on the right. Per response token (N): `rows`, the index in [B·T] whose logits
 * predict it; `targets`, its id; `inverseTemperature`; `old`, `advantage` and `weight` as in loss.ts.
 */
export type MicroBatch = {
  B: number
  T: number
  ids: Int32Array
  rows: number[]
  targets: number[]
  inverseTemperature: number[]
  old: number[]
  advantage: number[]
  weight: number[]
  opd: ReferenceRows
  kl: ReferenceRows
}

export type MicroBatchResult = {
  loss: number
  policyLoss: number
  opdLoss: number
  klLoss: number
  /** Log-probabilities [N] of the targets. */
  logp: Float32Array
  /** By name of the graph input (`loraKey`). */
  gradients: Map<string, Float32Array>
}

export type Training = {
  run(adapter: ReadonlyMap<string, WeightTensor>, batch: MicroBatch): Promise<MicroBatchResult>
  dispose(): Promise<void>
}

function program(config: ModelConfig, constants: ReadonlyMap<string, TensorData>, fixed: TrainingConstants): Program {
  const { vocabulary: V, headDim: d } = config
  const { topK } = fixed
  const reduced = isReduced(topK, V)
  const lora = trainedInputs(config, fixed.rank)
  const vector = (name: string, size: string): InputSpec => ({ name, dtype: 'float32', shape: [size] })
  const referenceInputs = (kind: string, R: string): InputSpec[] => [
    { name: `${kind}.places`, dtype: 'int32', shape: reduced ? [R, topK] : [R] },
    { name: `${kind}.reference`, dtype: 'float32', shape: [R, reduced ? topK + 1 : V] },
    vector(`${kind}.weight`, R),
  ]
  return {
    name: 'training',
    inputs: [
      { name: 'ids', dtype: 'int32', shape: ['B', 'T'] },
      { name: 'cos', dtype: 'float32', shape: [1, 1, 'T', d] },
      { name: 'sin', dtype: 'float32', shape: [1, 1, 'T', d] },
      { name: 'causal', dtype: 'float32', shape: ['T', 'T'] },
      { name: 'rows', dtype: 'int32', shape: ['N'] },
      { name: 'targets', dtype: 'int32', shape: ['N'] },
      vector('inverseTemperature', 'N'),
      vector('old', 'N'),
      vector('advantage', 'N'),
      vector('weight', 'N'),
      ...referenceInputs('opd', 'O'),
      ...referenceInputs('kl', 'K'),
      ...lora,
    ],
    constants,
    build(input, constant) {
      const ids = input('ids')
      const [B, T] = ids.shape as [number, number]
      const names = lora.map((spec) => spec.name)
      const figures: Record<string, tf.Tensor> = {}
      const forward = (...matrices: tf.Tensor[]): tf.Scalar => {
        const byName = new Map(names.map((name, at) => [name, matrices[at] as tf.Tensor]))
        const delta = trainedDelta((name) => byName.get(name) as tf.Tensor, fixed.rank, fixed.alpha)
        const parameters = frozenParameters(config, constant, delta)
        const sequence = { config, B, T, cos: input('cos'), sin: input('sin') }
        const hidden_ND = decode(ids, sequence, parameters, attendWithin(sequence, input('causal'), null))
        const picked_ND = tf.gather(hidden_ND, input('rows') as tf.Tensor1D) as tf.Tensor2D
        const logits_NV = tf.mul(head(picked_ND, config, parameters), tf.reshape(input('inverseTemperature'), [-1, 1]))
        const logp_NV = tf.logSoftmax(logits_NV) as tf.Tensor2D
        const logp_N = pick(logp_NV, input('targets') as tf.Tensor1D)
        const divergence = (kind: string) => {
          const places = input(`${kind}.places`)
          const weight_R = input(`${kind}.weight`) as tf.Tensor1D
          const reference = input(`${kind}.reference`) as tf.Tensor2D
          return reduced
            ? { reduced, student_Rk: pickEach(logp_NV, places as tf.Tensor2D), reference_Rk1: reference, weight_R }
            : {
                reduced,
                student_RV: tf.gather(logp_NV, places as tf.Tensor1D) as tf.Tensor2D,
                reference_RV: reference,
                weight_R,
              }
        }
        const parts = hybridLoss({
          logp_N,
          old_N: input('old') as tf.Tensor1D,
          advantage_N: input('advantage') as tf.Tensor1D,
          weight_N: input('weight') as tf.Tensor1D,
          clipLow: fixed.clipLow,
          clipHigh: fixed.clipHigh,
          opdForward: fixed.opdForward ?? 0,
          opd: divergence('opd'),
          kl: divergence('kl'),
        })
        figures['policy'] = tf.keep(parts.policy)
        figures['opd'] = tf.keep(parts.opd)
        figures['kl'] = tf.keep(parts.kl)
        figures['logp'] = tf.keep(logp_N)
        return parts.loss
      }
      const { value, grads } = tf.valueAndGrads(forward)(names.map((name) => input(name)))
      // `figures` were kept, since valueAndGrads disposes the tensors of its scope; clones belong to the outer scope.
      const out: Record<string, tf.Tensor> = { loss: value }
      for (const [name, tensor] of Object.entries(figures)) {
        out[name] = tf.clone(tensor)
        tensor.dispose()
      }
      names.forEach((name, at) => {
        out[`gradient:${name}`] = grads[at] as tf.Tensor
      })
      return out
    },
  }
}

/** values_NV[n, ids_n], [N]. The gradient is dy · one-hot(ids). */
function pick(values_NV: tf.Tensor2D, ids_N: tf.Tensor1D): tf.Tensor1D {
  const V = values_NV.shape[1]
  const op = tf.customGrad((...args: (tf.Tensor | tf.GradSaveFunc)[]) => ({
    value: tf.reshape(tf.gather(args[0] as tf.Tensor2D, tf.reshape(ids_N, [-1, 1]) as tf.Tensor2D, 1, 1), [-1]),
    gradFunc: (dy: tf.Tensor) => tf.mul(tf.oneHot(ids_N, V, 1, 0, 'float32'), tf.reshape(dy, [-1, 1])),
  }))
  return op(values_NV) as tf.Tensor1D
}

/** Elements of values_NV by their places [R, k] in its rows one after another; as [R, k]. */
export function pickEach(values_NV: tf.Tensor2D, places_Rk: tf.Tensor2D): tf.Tensor2D {
  const [N, V] = values_NV.shape
  const [R, k] = places_Rk.shape
  const picked = tf.gather(tf.reshape(values_NV, [N * V, 1]), tf.reshape(places_Rk, [R * k]) as tf.Tensor1D)
  return tf.reshape(picked, [R, k]) as tf.Tensor2D
}

/**
 * A KL term without rows becomes one row of weight zero, since no dimension of the graph may have size zero. With topK
 * the places are those of `pickEach`.
 */
function referenceFeeds(kind: string, rows: ReferenceRows, V: number, topK: number): Feeds {
  const { places, reference } = rows
  const none = places.length === 0
  const R = none ? 1 : places.length
  const columns = isReduced(topK, V) ? topK + 1 : V
  const feeds: Feeds = {
    [`${kind}.places`]: { shape: [R], data: Int32Array.from(none ? [0] : places) },
    [`${kind}.reference`]: { shape: [R, columns], data: none ? new Float32Array(columns) : reference.logp },
    [`${kind}.weight`]: { shape: [R], data: Float32Array.from(none ? [0] : rows.weight_R) },
  }
  if (!isReduced(topK, V)) return feeds
  const ids = none ? new Int32Array(topK) : reference.ids
  if (ids?.length !== R * topK) throw new Error(`${kind}: the references do not have ${topK} tokens in each row`)
  const data = ids.map((id, at) => (none ? 0 : (places[Math.floor(at / topK)] as number)) * V + id)
  return { ...feeds, [`${kind}.places`]: { shape: [R, topK], data } }
}

/**
 * Compiles the training program; its graph has named dimensions, so one compilation serves micro-batches of any size.
 */
export async function compileTraining(
  backend: Backend,
  config: ModelConfig,
  constants: ReadonlyMap<string, TensorData>,
  fixed: TrainingConstants,
): Promise<Training> {
  const compiled: Compiled = await backend.compile(program(config, constants, fixed))
  const table = ropeTable(config, config.contextLength)
  const d = config.headDim
  return {
    async run(adapter, batch) {
      const { B, T } = batch
      const N = batch.rows.length
      const vector = (values: number[]): TensorData => ({ shape: [N], data: Float32Array.from(values) })
      const feeds: Feeds = {
        ids: { shape: [B, T], data: batch.ids },
        cos: { shape: [1, 1, T, d], data: table.cos.subarray(0, T * d) },
        sin: { shape: [1, 1, T, d], data: table.sin.subarray(0, T * d) },
        causal: causalMask(T),
        rows: { shape: [N], data: Int32Array.from(batch.rows) },
        targets: { shape: [N], data: Int32Array.from(batch.targets) },
        inverseTemperature: vector(batch.inverseTemperature),
        old: vector(batch.old),
        advantage: vector(batch.advantage),
        weight: vector(batch.weight),
        ...referenceFeeds('opd', batch.opd, config.vocabulary, fixed.topK),
        ...referenceFeeds('kl', batch.kl, config.vocabulary, fixed.topK),
        ...Object.fromEntries(adapter),
      }
      const out = await compiled.run(feeds)
      const number = (name: string): number => out[name]?.data[0] ?? Number.NaN
      const gradients = new Map<string, Float32Array>()
      for (const name of adapter.keys()) {
        const gradient = out[`gradient:${name}`]
        if (!gradient) throw new Error(`the training program returned no gradient of ${name}`)
        gradients.set(name, gradient.data)
      }
      return {
        loss: number('loss'),
        policyLoss: number('policy'),
        opdLoss: number('opd'),
        klLoss: number('kl'),
        logp: out.logp?.data ?? new Float32Array(),
        gradients,
      }
    },
    dispose: () => compiled.dispose(),
  }
}
