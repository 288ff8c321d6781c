/** Adam on plain arrays with a fixed order of operations, and its state as safetensors bytes. */
import { readSafetensorsWithMetadata, writeSafetensors } from './checkpoints/safetensors.ts'
import type { Tensor } from './checkpoints/safetensors.ts'
import { InstarError } from '@instar/events/errors'
import type { WeightTensor } from './weights.ts'

/** `step`: steps taken. `first`, `second`: moments by tensor name, each of the size of its tensor. */
type AdamState = { step: number; first: Map<string, Float32Array>; second: Map<string, Float32Array> }
type AdamSettings = { learningRate: number; beta1: number; beta2: number; adamEpsilon?: number }

/** Default of `adamEpsilon`. */
const EPSILON = 1e-8

export function initialAdam(tensors: ReadonlyMap<string, WeightTensor>): AdamState {
  const zeros = (): Map<string, Float32Array> =>
    new Map([...tensors].map(([name, tensor]) => [name, new Float32Array(tensor.data.length)]))
  return { step: 0, first: zeros(), second: zeros() }
}

/** Adds the gradients of a micro-batch to the sums of a step, by name. */
export function addTo(sums: ReadonlyMap<string, Float32Array>, more: ReadonlyMap<string, Float32Array>): void {
  for (const [name, sum] of sums) {
    const own = more.get(name) as Float32Array
    for (let at = 0; at < sum.length; at++) sum[at] = (sum[at] as number) + (own[at] as number)
  }
}

/** The 2-norm of all gradients, taken as one vector. */
export function globalNorm(gradients: ReadonlyMap<string, Float32Array>): number {
  let sum = 0
  for (const gradient of gradients.values()) for (const value of gradient) sum += value * value
  return Math.sqrt(sum)
}

/**
 * One step, in place: tensors −= lr · m̂ / (√v̂ + `adamEpsilon`) with the bias-corrected moments of gradients · `scale`
 * (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1). Where `adamEpsilon` is far above √v̂, the step goes along the gradient
 * (with momentum) instead of by equal amounts in every parameter. Moments are stored in float32; each element is computed in
 * float64.
 */
export function adamStep(
  tensors: ReadonlyMap<string, WeightTensor>,
  gradients: ReadonlyMap<string, Float32Array>,
  scale: number,
  state: AdamState,
  settings: AdamSettings,
): void {
  state.step++
  const { learningRate, beta1, beta2, adamEpsilon = EPSILON } = settings
  const correction1 = 1 - beta1 ** state.step
  const correction2 = 1 - beta2 ** state.step
  for (const [name, tensor] of tensors) {
    const gradient = gradients.get(name)
    const first = state.first.get(name)
    const second = state.second.get(name)
    if (!gradient || !first || !second) throw new Error(`gradient or moments of ${name} are missing`)
    const { data } = tensor
    for (let at = 0; at < data.length; at++) {
      const g = (gradient[at] as number) * scale
      const m = beta1 * (first[at] as number) + (1 - beta1) * g
      const v = beta2 * (second[at] as number) + (1 - beta2) * g * g
      first[at] = m
      second[at] = v
      data[at] = (data[at] as number) - (learningRate * (m / correction1)) / (Math.sqrt(v / correction2) + adamEpsilon)
    }
  }
}

/** The state as safetensors: tensors `first:<name>` and `second:<name>`, metadata `step`. */
export function writeAdam(state: AdamState, tensors: ReadonlyMap<string, WeightTensor>): Uint8Array {
  const out = new Map<string, Tensor>()
  for (const [name, tensor] of tensors) {
    for (const [kind, moments] of [
      ['first', state.first],
      ['second', state.second],
    ] as const) {
      const data = moments.get(name)
      if (!data) throw new Error(`moments of ${name} are missing`)
      out.set(`${kind}:${name}`, { dtype: 'F32', shape: tensor.shape, data })
    }
  }
  return writeSafetensors(out, new Map([['step', String(state.step)]]))
}

/** Throws `bad_checkpoint` if `bytes` is not a state of these tensors. */
export function readAdam(bytes: Uint8Array, tensors: ReadonlyMap<string, WeightTensor>): AdamState {
  const { metadata, tensors: found } = readSafetensorsWithMetadata(bytes, 'optimizer state')
  const step = Number(metadata.get('step'))
  if (!Number.isSafeInteger(step) || step < 0)
    throw new InstarError('bad_checkpoint', 'optimizer state: metadata "step" is missing or not a count')
  const state = initialAdam(tensors)
  state.step = step
  for (const [name, tensor] of tensors) {
    for (const [kind, moments] of [
      ['first', state.first],
      ['second', state.second],
    ] as const) {
      const data = found.get(`${kind}:${name}`)?.data
      if (!(data instanceof Float32Array) || data.length !== tensor.data.length)
        throw new InstarError(
          'bad_checkpoint',
          `optimizer state: ${kind} moments of ${name} are missing or have another size`,
        )
      // A copy, since a step changes the moments in place and the bytes belong to the caller.
      moments.set(name, data.slice())
    }
  }
  return state
}
