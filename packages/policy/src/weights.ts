/**
 * Model configuration and weights, independent of the checkpoint format. Readers of checkpoints produce them; the
 * model, the runtimes and the exporters use them.
 */

/**
 * The configuration of a Llama-like decoder: RMSNorm, half-rotate RoPE, grouped-query attention, SwiGLU. Llama has
 * neither `attentionBias` nor `qkNorm`, Qwen2.5 has `attentionBias`, Qwen3 has `qkNorm`.
 */
export type ModelConfig = {
  hiddenSize: number
  intermediateSize: number
  layers: number
  heads: number
  kvHeads: number
  /** May differ from hiddenSize / heads. */
  headDim: number
  vocabulary: number
  contextLength: number
  ropeTheta: number
  rmsEps: number
  /** RMSNorm over the head dimension of q and k, before RoPE. */
  qkNorm: boolean
  /** Biases on q, k and v; o has none. */
  attentionBias: boolean
  /** The output head shares the embedding matrix; there is no `lm_head.weight`. */
  tiedHead: boolean
}

/** `data` is row-major in `shape`; a projection is [out, in]. */
export type WeightTensor = { shape: readonly number[]; data: Float32Array }

/**
 * A projection [out, in] in blocks of 32 inputs with 4-bit codes: w = scale · code + minimum. `codes` is
 * [out, in/32, 16]; byte i of a block holds the code of input 2i in its low and of input 2i + 1 in its high four bits.
 * `scales` and `minima` are [out, in/32].
 */
export type PackedTensor = {
  shape: readonly [number, number]
  codes: Uint8Array
  scales: Float32Array
  minima: Float32Array
}
export const PACKED_BLOCK = 32

/**
 * Tensors by Hugging Face name (`model.layers.0.self_attn.q_proj.weight`). `get` throws if there is no such tensor.
 * `packed` returns the tensor in 4-bit blocks, or null if the checkpoint stores it in another type.
 */
export interface Weights {
  names(): readonly string[]
  get(name: string): WeightTensor
  packed?(name: string): PackedTensor | null
}

/** The seven projections that have LoRA matrices, in the order of every list of projections. */
export const PROJECTIONS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const
export type Projection = (typeof PROJECTIONS)[number]

/** The name of a projection inside its layer: `self_attn.q_proj`, `mlp.up_proj`. */
export function projectionPath(projection: Projection): string {
  return projection === 'gate_proj' || projection === 'up_proj' || projection === 'down_proj'
    ? `mlp.${projection}`
    : `self_attn.${projection}`
}

/** [out, in] of a projection. */
export function projectionShape(config: ModelConfig, projection: Projection): [number, number] {
  const q = config.heads * config.headDim
  const kv = config.kvHeads * config.headDim
  switch (projection) {
    case 'q_proj':
      return [q, config.hiddenSize]
    case 'k_proj':
    case 'v_proj':
      return [kv, config.hiddenSize]
    case 'o_proj':
      return [config.hiddenSize, q]
    case 'gate_proj':
    case 'up_proj':
      return [config.intermediateSize, config.hiddenSize]
    case 'down_proj':
      return [config.hiddenSize, config.intermediateSize]
  }
}

/** Name and shape of every tensor of the model, in a fixed order. */
export function weightShapes(config: ModelConfig): [string, number[]][] {
  const shapes: [string, number[]][] = [['model.embed_tokens.weight', [config.vocabulary, config.hiddenSize]]]
  for (let layer = 0; layer < config.layers; layer++) {
    const at = `model.layers.${layer}.`
    shapes.push([`${at}input_layernorm.weight`, [config.hiddenSize]])
    for (const projection of PROJECTIONS) {
      const shape = projectionShape(config, projection)
      const path = at + projectionPath(projection)
      shapes.push([`${path}.weight`, shape])
      if (config.attentionBias && (projection === 'q_proj' || projection === 'k_proj' || projection === 'v_proj'))
        shapes.push([`${path}.bias`, [shape[0]]])
    }
    if (config.qkNorm)
      shapes.push(
        [`${at}self_attn.q_norm.weight`, [config.headDim]],
        [`${at}self_attn.k_norm.weight`, [config.headDim]],
      )
    shapes.push([`${at}post_attention_layernorm.weight`, [config.hiddenSize]])
  }
  shapes.push(['model.norm.weight', [config.hiddenSize]])
  if (!config.tiedHead) shapes.push(['lm_head.weight', [config.vocabulary, config.hiddenSize]])
  return shapes
}

/** Weights in memory. */
export function weightsFrom(tensors: ReadonlyMap<string, WeightTensor>): Weights {
  return {
    names: () => [...tensors.keys()],
    get(name) {
      const tensor = tensors.get(name)
      if (!tensor) throw new Error(`there is no tensor ${name}`)
      return tensor
    },
  }
}
