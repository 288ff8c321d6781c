/**
 * LoRA adapters on all seven projections: y += (alpha / rank) · B(A x), arXiv 2106.09685, section 4.1. Initial values,
 * and conversion to and from the inputs of a training program.
 */
import type { Lora } from './checkpoints/peft.ts'
import { loraKey } from './parameters.ts'
import { uniform } from './random.ts'
import { PROJECTIONS, projectionPath, projectionShape } from './weights.ts'
import type { ModelConfig, WeightTensor } from './weights.ts'

/**
 * A [rank, in] is uniform in ±1/√in: Kaiming uniform with a = √5, PEFT's default, where the paper uses a Gaussian.
 * B [out, rank] is zero, as in the paper, so the adapted model equals the base model. Equal seeds give equal adapters.
 */
export function initialLora(config: ModelConfig, rank: number, alpha: number, seed: number): Lora {
  const next = uniform(seed)
  const modules = new Map<string, { a: WeightTensor; b: WeightTensor }>()
  for (let layer = 0; layer < config.layers; layer++) {
    for (const projection of PROJECTIONS) {
      const [out, inner] = projectionShape(config, projection)
      const bound = 1 / Math.sqrt(inner)
      const a = Float32Array.from({ length: rank * inner }, () => (2 * next() - 1) * bound)
      modules.set(`model.layers.${layer}.${projectionPath(projection)}`, {
        a: { shape: [rank, inner], data: a },
        b: { shape: [out, rank], data: new Float32Array(out * rank) },
      })
    }
  }
  return { rank, alpha, modules }
}

/** The matrices by input name of the training program (`loraKey`); zeros for a projection without matrices. */
export function loraTensors(config: ModelConfig, lora: Lora): Map<string, WeightTensor> {
  const tensors = new Map<string, WeightTensor>()
  for (let layer = 0; layer < config.layers; layer++) {
    for (const projection of PROJECTIONS) {
      const [out, inner] = projectionShape(config, projection)
      const module = lora.modules.get(`model.layers.${layer}.${projectionPath(projection)}`)
      const { rank } = lora
      tensors.set(
        loraKey(layer, projection, 'A'),
        module?.a ?? { shape: [rank, inner], data: new Float32Array(rank * inner) },
      )
      tensors.set(
        loraKey(layer, projection, 'B'),
        module?.b ?? { shape: [out, rank], data: new Float32Array(out * rank) },
      )
    }
  }
  return tensors
}

/** The inverse of `loraTensors`. Throws where a matrix is missing. */
export function loraFrom(
  config: ModelConfig,
  rank: number,
  alpha: number,
  tensors: ReadonlyMap<string, WeightTensor>,
): Lora {
  const modules = new Map<string, { a: WeightTensor; b: WeightTensor }>()
  for (let layer = 0; layer < config.layers; layer++) {
    for (const projection of PROJECTIONS) {
      const a = tensors.get(loraKey(layer, projection, 'A'))
      const b = tensors.get(loraKey(layer, projection, 'B'))
      if (!a || !b) throw new Error(`LoRA matrices of ${projection} in layer ${layer} are missing`)
      modules.set(`model.layers.${layer}.${projectionPath(projection)}`, { a, b })
    }
  }
  return { rank, alpha, modules }
}

/** From `from` (at 0) to `to` (at 1), matrix by matrix. Both have the same names and shapes. */
export function interpolate(
  from: ReadonlyMap<string, WeightTensor>,
  to: ReadonlyMap<string, WeightTensor>,
  scale: number,
): Map<string, WeightTensor> {
  return new Map(
    [...to].map(([name, { shape, data }]) => {
      const start = from.get(name)?.data ?? new Float32Array(data.length)
      return [
        name,
        { shape, data: data.map((value, at) => (start[at] as number) + scale * (value - (start[at] as number))) },
      ]
    }),
  )
}

/** B matrices times `scale`: at 0 the base model. */
export function scaleB(tensors: ReadonlyMap<string, WeightTensor>, scale: number): Map<string, WeightTensor> {
  return new Map(
    [...tensors].map(([name, { shape, data }]) => [
      name,
      { shape, data: name.endsWith('.lora_B') ? data.map((value) => scale * value) : data.slice() },
    ]),
  )
}
