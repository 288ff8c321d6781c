/**
 * A LoRA adapter (Hu et al. 2021, section 4.1) before its first update, and as bytes: y += (alpha / rank) · B(A x) on
 * all seven projections.
 */
import type { Lora } from './checkpoints/peft.ts'
import { loraKey } from './parameters.ts'
import { uniform } from './random.ts'
import { PROJECTIONS, projectionPath, projectionShape } from './weights.ts'
import type { ModelConfig, WeightTensor } from './weights.ts'

/**
 * A is uniform in ±1/√in (Kaiming with a = √5, as PEFT draws it), B is zero: the adapted model is the base
 * model. Equal seeds give equal adapters.
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

/** The matrices by the names of a training program's inputs; zeros where the adapter leaves a projection out. */
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

/** The inverse of `loraTensors`. */
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
      if (!a || !b) throw new Error(`no matrices for ${projection} of layer ${layer}`)
      modules.set(`model.layers.${layer}.${projectionPath(projection)}`, { a, b })
    }
  }
  return { rank, alpha, modules }
}
