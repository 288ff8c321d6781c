/**
 * What a decoder is made of, without saying where it came from. Readers of checkpoints produce these two
 * types; the model, the runtimes and the exporters consume them.
 */

/**
 * The shape of a Llama-like decoder: RMSNorm, half-rotate RoPE, grouped-query attention, SwiGLU.
 * Llama: both flags false; Qwen2.5: `attentionBias`; Qwen3: `qkNorm`.
 */
export type ModelConfig = {
  hiddenSize: number
  intermediateSize: number
  layers: number
  heads: number
  kvHeads: number
  /** Not always hiddenSize / heads. */
  headDim: number
  vocabulary: number
  contextLength: number
  ropeTheta: number
  rmsEps: number
  /** RMSNorm over the head dimension of q and k, before RoPE. */
  qkNorm: boolean
  /** Bias on q, k and v (never on o). */
  attentionBias: boolean
  /** The head is the embedding; no `lm_head.weight`. */
  tiedHead: boolean
}

/** `data` is row-major in `shape`; a projection is [out, in]. */
export type WeightTensor = { shape: readonly number[]; data: Float32Array }

/**
 * A projection [out, in] in blocks of 32 inputs, w = scale · code + minimum with codes of 4 bits. `codes` [out,
 * in/32, 16]: byte i of a block holds the code of its input 2i in the low half, of 2i + 1 in the high half. `scales`
 * and `minima` [out, in/32].
 */
export type PackedTensor = {
  shape: readonly [number, number]
  codes: Uint8Array
  scales: Float32Array
  minima: Float32Array
}
export const PACKED_BLOCK = 32

/**
 * Tensors by their Hugging Face names (`model.layers.0.self_attn.q_proj.weight`). `get` throws where the name is
 * missing. `packed`: the same values as the checkpoint holds them, where it holds them so; else null.
 */
export interface Weights {
  names(): readonly string[]
  get(name: string): WeightTensor
  packed?(name: string): PackedTensor | null
}

/** The seven projections that carry LoRA, in the order of every list that runs over them. */
export const PROJECTIONS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const
export type Projection = (typeof PROJECTIONS)[number]

/** `self_attn.q_proj`, `mlp.up_proj`: a projection's path inside its layer. */
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

/** Every tensor that a model of this shape has, with its shape, in a fixed order. */
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

/** Weights held in memory. */
export function weightsFrom(tensors: ReadonlyMap<string, WeightTensor>): Weights {
  return {
    names: () => [...tensors.keys()],
    get(name) {
      const tensor = tensors.get(name)
      if (!tensor) throw new Error(`no tensor named ${name}`)
      return tensor
    },
  }
}
