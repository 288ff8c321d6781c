/**
 * Implementations of `Parameters` (model.ts) and the tensors that they need: frozen weights (fused constants), frozen
 * weights with adapters, and trained weights (every tensor is an input). Defines the names of these graph inputs.
 */
import * as tf from './tensors.ts'
import { GROUPS } from './model.ts'
import type { Group, Parameters } from './model.ts'
import { projectionPath, projectionShape } from './weights.ts'
import type { ModelConfig, PackedTensor, Projection, Weights } from './weights.ts'
import type { InputSpec, TensorData } from './runtime/backend.ts'
import type { Lora } from './checkpoints/peft.ts'

const GROUP_NAMES = Object.keys(GROUPS) as Group[]

/** Output sizes of a group's projections. */
function groupSizes(config: ModelConfig, group: Group): number[] {
  return GROUPS[group].map((projection) => projectionShape(config, projection)[0])
}

function concatRows(parts: readonly TensorData[]): TensorData {
  const [first] = parts
  if (!first) throw new Error('concatRows needs at least one tensor')
  if (parts.length === 1) return first
  const rows = parts.reduce((sum, part) => sum + (part.shape[0] ?? 0), 0)
  const data = new Float32Array(parts.reduce((sum, part) => sum + part.data.length, 0))
  let at = 0
  for (const part of parts) {
    data.set(part.data, at)
    at += part.data.length
  }
  return { shape: [rows, ...first.shape.slice(1)], data }
}

const weightKey = (layer: number, projection: Projection): string =>
  `model.layers.${layer}.${projectionPath(projection)}.weight`
const biasKey = (layer: number, projection: Projection): string =>
  `model.layers.${layer}.${projectionPath(projection)}.bias`
const fusedKey = (layer: number, group: Group, kind: 'weight' | 'bias'): string =>
  `model.layers.${layer}.${group}.${kind}`
const hasBias = (config: ModelConfig, group: Group): boolean => config.attentionBias && group === 'qkv'

/**
 * The frozen weights as constants of a program. Projections of one group are stacked along their output axis; the other
 * tensors keep their Hugging Face names.
 */
export function frozenConstants(config: ModelConfig, weights: Weights): Map<string, TensorData> {
  const constants = new Map<string, TensorData>()
  const copy = (name: string): void => {
    constants.set(name, weights.get(name))
  }
  copy('model.embed_tokens.weight')
  for (let layer = 0; layer < config.layers; layer++) {
    const at = `model.layers.${layer}.`
    copy(`${at}input_layernorm.weight`)
    copy(`${at}post_attention_layernorm.weight`)
    if (config.qkNorm) {
      copy(`${at}self_attn.q_norm.weight`)
      copy(`${at}self_attn.k_norm.weight`)
    }
    for (const group of GROUP_NAMES) {
      constants.set(
        fusedKey(layer, group, 'weight'),
        concatRows(GROUPS[group].map((projection) => weights.get(weightKey(layer, projection)))),
      )
      if (hasBias(config, group))
        constants.set(
          fusedKey(layer, group, 'bias'),
          concatRows(GROUPS[group].map((projection) => weights.get(biasKey(layer, projection)))),
        )
    }
  }
  copy('model.norm.weight')
  if (!config.tiedHead) copy('lm_head.weight')
  return constants
}

/**
 * The stacked projections of `frozenConstants` in 4-bit blocks, read on demand by name. Null unless the checkpoint
 * stores every projection of the group in blocks.
 */
export function packedConstants(config: ModelConfig, weights: Weights): (name: string) => PackedTensor | null {
  const groups = new Map<string, string[]>()
  for (let layer = 0; layer < config.layers; layer++) {
    for (const group of GROUP_NAMES)
      groups.set(
        fusedKey(layer, group, 'weight'),
        GROUPS[group].map((projection) => weightKey(layer, projection)),
      )
  }
  return (name) => {
    const parts: PackedTensor[] = []
    for (const key of groups.get(name) ?? []) {
      const part = weights.packed?.(key)
      if (!part) return null
      parts.push(part)
    }
    const [first] = parts
    if (!first) return null
    const rows = parts.reduce((sum, { shape }) => sum + shape[0], 0)
    const out: PackedTensor = {
      shape: [rows, first.shape[1]],
      codes: new Uint8Array((rows * first.codes.length) / first.shape[0]),
      scales: new Float32Array((rows * first.scales.length) / first.shape[0]),
      minima: new Float32Array((rows * first.minima.length) / first.shape[0]),
    }
    let row = 0
    for (const part of parts) {
      for (const field of ['codes', 'scales', 'minima'] as const)
        out[field].set(part[field], row * (part[field].length / part.shape[0]))
      row += part.shape[0]
    }
    return out
  }
}

type Lookup = (name: string) => tf.Tensor
/** What adapters add to the stacked output [N, ΣO] of a group, or to the output of each projection; null: nothing. */
export type Delta = {
  stacked(layer: number, group: Group, x_NI: tf.Tensor2D): tf.Tensor2D | null
  each(layer: number, group: Group, x_NI: tf.Tensor2D): tf.Tensor2D[] | null
}

/** Frozen weights from the constants of `frozenConstants`, plus the output of `delta`. */
export function frozenParameters(config: ModelConfig, constant: Lookup, delta: Partial<Delta> = {}): Parameters {
  return {
    weight: constant,
    project(layer, group, x_NI) {
      let y_NO: tf.Tensor2D = tf.matMul(x_NI, constant(fusedKey(layer, group, 'weight')) as tf.Tensor2D, false, true)
      if (hasBias(config, group)) y_NO = tf.add(y_NO, constant(fusedKey(layer, group, 'bias')))
      const stacked = delta.stacked?.(layer, group, x_NI)
      if (stacked) y_NO = tf.add(y_NO, stacked)
      const sizes = groupSizes(config, group)
      const parts: tf.Tensor2D[] = sizes.length === 1 ? [y_NO] : tf.split<tf.Tensor2D>(y_NO, sizes, 1)
      const each = delta.each?.(layer, group, x_NI)
      return each ? parts.map((part, at): tf.Tensor2D => tf.add(part, each[at] as tf.Tensor2D)) : parts
    },
  }
}

/** Trained weights: each tensor is a graph input with a gradient. */
export function trainedParameters(config: ModelConfig, input: Lookup): Parameters {
  return {
    weight: input,
    project(layer, group, x_NI) {
      const projections = GROUPS[group]
      const rows = projections.map((projection) => input(weightKey(layer, projection)) as tf.Tensor2D)
      let y_NO: tf.Tensor2D = tf.matMul(
        x_NI,
        (rows.length === 1 ? rows[0] : tf.concat(rows, 0)) as tf.Tensor2D,
        false,
        true,
      )
      if (hasBias(config, group))
        y_NO = tf.add(
          y_NO,
          tf.concat(
            projections.map((projection) => input(biasKey(layer, projection)) as tf.Tensor1D),
            0,
          ),
        )
      return rows.length === 1 ? [y_NO] : tf.split<tf.Tensor2D>(y_NO, groupSizes(config, group), 1)
    },
  }
}

const packedKey = (layer: number, group: Group, side: 'a' | 'b'): string => `lora.${layer}.${group}.${side}`
const maskKey = (group: Group): string => `lora.mask${GROUPS[group].length}`
const rankName = (group: Group): string => `R${GROUPS[group].length}`

/**
 * Graph inputs of several adapters in one batch. A group of P projections and slots of ranks r_s has one row per
 * (projection, slot, rank): A [P·Σr, in] and B [P·Σr, ΣO], which is zero outside the columns of its projection. The
 * mask [B, P·Σr] holds alpha/r in the columns of the slot of each batch row and 0 elsewhere; a row of zeros is the base
 * model.
 */
export function packedInputs(config: ModelConfig): InputSpec[] {
  const specs: InputSpec[] = [1, 2, 3].map((count) => ({
    name: `lora.mask${count}`,
    dtype: 'float32',
    shape: ['B', `R${count}`],
  }))
  for (let layer = 0; layer < config.layers; layer++) {
    for (const group of GROUP_NAMES) {
      const [projection] = GROUPS[group]
      specs.push({
        name: packedKey(layer, group, 'a'),
        dtype: 'float32',
        shape: [rankName(group), projectionShape(config, projection)[1]],
      })
      specs.push({
        name: packedKey(layer, group, 'b'),
        dtype: 'float32',
        shape: [rankName(group), groupSizes(config, group).reduce((sum, size) => sum + size, 0)],
      })
    }
  }
  return specs
}

/** The output of the adapters of `packedInputs` for B rows of T positions. */
export function packedDelta(input: Lookup, B: number, T: number): Partial<Delta> {
  const masks = new Map<string, tf.Tensor2D>()
  /** The mask per position instead of per row; computed once for all layers. */
  const mask_NR = (key: string): tf.Tensor2D => {
    const cached = masks.get(key)
    if (cached) return cached
    const mask_BR = input(key)
    const R = mask_BR.shape[1] ?? 1
    const repeated = tf.reshape(tf.mul(tf.reshape(mask_BR, [B, 1, R]), tf.ones([B, T, 1])), [B * T, R]) as tf.Tensor2D
    masks.set(key, repeated)
    return repeated
  }
  return {
    stacked(layer, group, x_NI) {
      const low_NR = tf.matMul(x_NI, input(packedKey(layer, group, 'a')) as tf.Tensor2D, false, true)
      return tf.matMul(
        tf.mul(low_NR, mask_NR(maskKey(group))) as tf.Tensor2D,
        input(packedKey(layer, group, 'b')) as tf.Tensor2D,
      )
    },
  }
}

const moduleName = (layer: number, projection: Projection): string =>
  `model.layers.${layer}.${projectionPath(projection)}`
/** Name of an adapter's matrix as an input of the training program. */
export const loraKey = (layer: number, projection: Projection, side: 'A' | 'B'): string =>
  `${moduleName(layer, projection)}.lora_${side}`

/** Values of the A and B inputs of `packedInputs`: the adapters in slot order; a null slot has no rows. */
export function packAdapters(config: ModelConfig, slots: readonly (Lora | null)[]): Record<string, TensorData> {
  const adapters = slots.filter((slot): slot is Lora => slot !== null)
  const total = Math.max(
    1,
    adapters.reduce((sum, adapter) => sum + adapter.rank, 0),
  )
  const feeds: Record<string, TensorData> = {}
  for (let layer = 0; layer < config.layers; layer++) {
    for (const group of GROUP_NAMES) {
      const projections = GROUPS[group]
      const columns = groupSizes(config, group).reduce((sum, size) => sum + size, 0)
      const inSize = projectionShape(config, projections[0])[1]
      const rows = projections.length * total
      const a = new Float32Array(rows * inSize)
      const b = new Float32Array(rows * columns)
      let column = 0
      for (const [part, projection] of projections.entries()) {
        const out = projectionShape(config, projection)[0]
        let row = part * total
        for (const { rank, modules } of adapters) {
          const module = modules.get(moduleName(layer, projection))
          if (module) {
            a.set(module.a.data, row * inSize)
            for (let j = 0; j < rank; j++) {
              for (let o = 0; o < out; o++) b[(row + j) * columns + column + o] = module.b.data[o * rank + j] as number
            }
          }
          row += rank
        }
        column += out
      }
      feeds[packedKey(layer, group, 'a')] = { shape: [rows, inSize], data: a }
      feeds[packedKey(layer, group, 'b')] = { shape: [rows, columns], data: b }
    }
  }
  return feeds
}

/** Values of the three mask inputs of `packedInputs` for batch rows on the given slots (null: base model). */
export function packedMasks(
  slots: readonly (Lora | null)[],
  rowSlots: readonly (number | null)[],
): Record<string, TensorData> {
  const total = Math.max(
    1,
    slots.reduce((sum, slot) => sum + (slot?.rank ?? 0), 0),
  )
  const starts: number[] = []
  let next = 0
  for (const slot of slots) {
    starts.push(next)
    next += slot?.rank ?? 0
  }
  const feeds: Record<string, TensorData> = {}
  for (const count of [1, 2, 3]) {
    const data = new Float32Array(rowSlots.length * count * total)
    rowSlots.forEach((index, row) => {
      const slot = index === null ? null : slots[index]
      if (index !== null && !slot) throw new Error(`adapter slot ${index} is empty`)
      if (!slot || index === null) return
      for (let part = 0; part < count; part++) {
        const from = row * count * total + part * total + (starts[index] ?? 0)
        data.fill(slot.alpha / slot.rank, from, from + slot.rank)
      }
    })
    feeds[`lora.mask${count}`] = { shape: [rowSlots.length, count * total], data }
  }
  return feeds
}

/** Graph inputs of the adapter that is trained: A [rank, in] and B [out, rank] of each projection, as in PEFT. */
export function trainedInputs(config: ModelConfig, rank: number): InputSpec[] {
  const specs: InputSpec[] = []
  for (let layer = 0; layer < config.layers; layer++) {
    for (const group of GROUP_NAMES) {
      for (const projection of GROUPS[group]) {
        const [out, inSize] = projectionShape(config, projection)
        specs.push({ name: loraKey(layer, projection, 'A'), dtype: 'float32', shape: [rank, inSize] })
        specs.push({ name: loraKey(layer, projection, 'B'), dtype: 'float32', shape: [out, rank] })
      }
    }
  }
  return specs
}

/** The output of the adapter of `trainedInputs`. */
export function trainedDelta(input: Lookup, rank: number, alpha: number): Partial<Delta> {
  return {
    each(layer, group, x_NI) {
      const projections = GROUPS[group]
      const a = projections.map((projection) => input(loraKey(layer, projection, 'A')) as tf.Tensor2D)
      const scaled_NR = tf.mul(
        tf.matMul(x_NI, (a.length === 1 ? a[0] : tf.concat(a, 0)) as tf.Tensor2D, false, true),
        tf.scalar(alpha / rank),
      ) as tf.Tensor2D
      const parts_NR = a.length === 1 ? [scaled_NR] : tf.split(scaled_NR, a.length, 1)
      return projections.map((projection, at) =>
        tf.matMul<tf.Tensor2D>(
          parts_NR[at] as tf.Tensor2D,
          input(loraKey(layer, projection, 'B')) as tf.Tensor2D,
          false,
          true,
        ),
      )
    },
  }
}
