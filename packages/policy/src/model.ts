/**
 * The decoder in TensorFlow.js: RMSNorm, half-rotate RoPE, grouped-query attention and SwiGLU; QK-norm, attention
 * biases and a tied head are options. All runtimes use this source, for inference and for training.
 *
 * Shapes: B rows, T new positions, C cached positions, N = B·T (or selected positions), D hidden size, H query heads,
 * G key-value heads, d head size, F feed-forward size, V vocabulary. Projections are [out, in], as in checkpoints.
 */
import * as tf from './tensors.ts'
import type { ModelConfig, Projection } from './weights.ts'

/** Projections that read the same input and may be computed by one matrix product. */
export const GROUPS = {
  qkv: ['q_proj', 'k_proj', 'v_proj'],
  o: ['o_proj'],
  gate_up: ['gate_proj', 'up_proj'],
  down: ['down_proj'],
} as const satisfies Record<string, readonly Projection[]>
export type Group = keyof typeof GROUPS

/** Added to masked attention scores. It is finite, so that the softmax of a fully masked row is finite. */
export const MASKED = -1e9

/** The weights as the decoder reads them; implementations are frozen, adapted and trained weights (parameters.ts). */
export type Parameters = {
  /** A tensor by its Hugging Face name. */
  weight(name: string): tf.Tensor
  /** Applies the projections of `group` to x [N, in]; one result [N, out] each, biases and adapters included. */
  project(layer: number, group: Group, x_NI: tf.Tensor2D): tf.Tensor2D[]
}

type Save = tf.GradSaveFunc

/** x / sqrt(mean(x²) + eps) · w over the last axis. */
function rmsNorm(x: tf.Tensor, weight_D: tf.Tensor, eps: number): tf.Tensor {
  const size = x.shape[x.shape.length - 1] ?? 1
  const forward = (a: tf.Tensor): tf.Tensor =>
    tf.sqrt(tf.add(tf.mean(tf.pow(a, tf.scalar(2)), -1, true), tf.scalar(eps)))
  const op = tf.customGrad((...args: (tf.Tensor | Save)[]) => {
    const [a, w, save] = args as [tf.Tensor, tf.Tensor, Save]
    const root = forward(a)
    const unit = tf.div(a, root)
    save([unit, root, w])
    return {
      value: tf.mul(unit, w),
      gradFunc: (dy: tf.Tensor, saved: tf.Tensor[]) => {
        const [xhat, rms, scale] = saved as [tf.Tensor, tf.Tensor, tf.Tensor]
        const g = tf.mul(dy, scale)
        const inner = tf.mul(tf.sum(tf.mul(g, xhat), -1, true), tf.scalar(1 / size))
        const dx = tf.div(tf.sub(g, tf.mul(xhat, inner)), rms)
        const dw = tf.sum(tf.reshape(tf.mul(dy, xhat), [-1, size]), 0)
        return [dx, dw]
      },
    }
  })
  return op(x, weight_D)
}

/** Swaps the two halves of the last axis. */
function swapHalves(x: tf.Tensor): tf.Tensor {
  const [low, high] = tf.split(x, 2, -1) as [tf.Tensor, tf.Tensor]
  return tf.concat([high, low], -1)
}

/** Rotates x [B, H, T, d] by cos and sin [1 or B, 1, T, d]. The first half of `sin` is negated (`ropeTable`). */
export function rope(x: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor): tf.Tensor {
  const op = tf.customGrad((...args: (tf.Tensor | Save)[]) => {
    const a = args[0] as tf.Tensor
    return {
      value: tf.add(tf.mul(a, cos), tf.mul(swapHalves(a), sin)),
      gradFunc: (dy: tf.Tensor) => tf.add(tf.mul(dy, cos), swapHalves(tf.mul(dy, sin))),
    }
  })
  return op(x)
}

/** silu(gate) · up. */
function swiglu(gate: tf.Tensor2D, up: tf.Tensor2D): tf.Tensor2D {
  const op = tf.customGrad((...args: (tf.Tensor | Save)[]) => {
    const [g, u, save] = args as [tf.Tensor, tf.Tensor, Save]
    const s = tf.sigmoid(g)
    const silu = tf.mul(g, s)
    save([silu, s, u])
    return {
      value: tf.mul(silu, u),
      gradFunc: (dy: tf.Tensor, saved: tf.Tensor[]) => {
        const [act, sig, upper] = saved as [tf.Tensor, tf.Tensor, tf.Tensor]
        const slope = tf.add(sig, tf.mul(act, tf.sub(tf.scalar(1), sig)))
        return [tf.mul(tf.mul(dy, upper), slope), tf.mul(dy, act)]
      },
    }
  })
  return op(gate, up) as tf.Tensor2D
}

/**
 * cos and sin of the rotation angles, [positions, d] each: angle(p, i) = p · theta^(−2i/d) for i < d/2, repeated in
 * both halves. The first half of sin is negated, as `rope` expects.
 */
export function ropeTable(config: ModelConfig, positions: number): { cos: Float32Array; sin: Float32Array } {
  const d = config.headDim
  const cos = new Float32Array(positions * d)
  const sin = new Float32Array(positions * d)
  for (let p = 0; p < positions; p++) {
    for (let i = 0; i < d / 2; i++) {
      const angle = p * Math.pow(config.ropeTheta, (-2 * i) / d)
      cos[p * d + i] = cos[p * d + i + d / 2] = Math.cos(angle)
      sin[p * d + i] = -Math.sin(angle)
      sin[p * d + i + d / 2] = Math.sin(angle)
    }
  }
  return { cos, sin }
}

/** [B·T, heads·d] → [B, heads, T, d] */
function toHeads(x: tf.Tensor2D, B: number, T: number, heads: number, d: number): tf.Tensor4D {
  const x_BTHd = tf.reshape(x, [B, T, heads, d]) as tf.Tensor4D
  return tf.transpose(x_BTHd, [0, 2, 1, 3])
}

/**
 * The attention of one layer. `q` is [B, H, T, d], already scaled by d^−½; `k` and `v` are [B, G, T, d]. Returns
 * [B, H, T, d].
 */
type Attend = (layer: number, q: tf.Tensor4D, k: tf.Tensor4D, v: tf.Tensor4D) => tf.Tensor4D

export type Sequence = { config: ModelConfig; B: number; T: number; cos: tf.Tensor; sin: tf.Tensor }

/** Token ids [B, T] to hidden states after the final norm [B·T, D]. */
export function decode(ids_BT: tf.Tensor, sequence: Sequence, parameters: Parameters, attend: Attend): tf.Tensor2D {
  const { config, B, T, cos, sin } = sequence
  const { heads: H, kvHeads: G, headDim: d, hiddenSize: D, rmsEps: eps } = config
  const embedding = parameters.weight('model.embed_tokens.weight')
  let x_ND = tf.gather(embedding, tf.reshape(ids_BT, [B * T])) as tf.Tensor2D
  for (let layer = 0; layer < config.layers; layer++) {
    const at = `model.layers.${layer}.`
    const h_ND = rmsNorm(x_ND, parameters.weight(`${at}input_layernorm.weight`), eps) as tf.Tensor2D
    const [q_N, k_N, v_N] = parameters.project(layer, 'qkv', h_ND) as [tf.Tensor2D, tf.Tensor2D, tf.Tensor2D]
    let q: tf.Tensor = toHeads(q_N, B, T, H, d)
    let k: tf.Tensor = toHeads(k_N, B, T, G, d)
    if (config.qkNorm) {
      q = rmsNorm(q, parameters.weight(`${at}self_attn.q_norm.weight`), eps)
      k = rmsNorm(k, parameters.weight(`${at}self_attn.k_norm.weight`), eps)
    }
    q = tf.mul(rope(q, cos, sin), tf.scalar(1 / Math.sqrt(d)))
    const o = attend(layer, q as tf.Tensor4D, rope(k, cos, sin) as tf.Tensor4D, toHeads(v_N, B, T, G, d))
    const o_N = tf.reshape(tf.transpose(o, [0, 2, 1, 3]), [B * T, H * d]) as tf.Tensor2D
    const [attended_ND] = parameters.project(layer, 'o', o_N) as [tf.Tensor2D]
    x_ND = tf.add(x_ND, attended_ND)
    const m_ND = rmsNorm(x_ND, parameters.weight(`${at}post_attention_layernorm.weight`), eps) as tf.Tensor2D
    const [gate_NF, up_NF] = parameters.project(layer, 'gate_up', m_ND) as [tf.Tensor2D, tf.Tensor2D]
    const [down_ND] = parameters.project(layer, 'down', swiglu(gate_NF, up_NF)) as [tf.Tensor2D]
    x_ND = tf.add(x_ND, down_ND)
  }
  return tf.reshape(rmsNorm(x_ND, parameters.weight('model.norm.weight'), eps), [B * T, D]) as tf.Tensor2D
}

/** Hidden states [N, D] to logits [N, V]. */
export function head(hidden_ND: tf.Tensor2D, config: ModelConfig, parameters: Parameters): tf.Tensor2D {
  const weight = parameters.weight(config.tiedHead ? 'model.embed_tokens.weight' : 'lm_head.weight')
  return tf.matMul(hidden_ND, weight as tf.Tensor2D, false, true)
}

/**
 * Causal attention within the sequence. Rows padded on the right need no mask, since the padding follows every valid
 * query. Rows padded on the left need `keys_BT`: 0 for a valid key, `MASKED` for padding. The H/G query heads of one
 * key-value head are stacked along the query axis, since the gradient of a broadcasting matrix product is not supported
 * (gradients.ts).
 */
export function attendWithin(sequence: Sequence, causal_TT: tf.Tensor, keys_BT: tf.Tensor | null): Attend {
  const { config, B, T } = sequence
  const { heads: H, kvHeads: G, headDim: d } = config
  return (_layer, q, k, v) => {
    const q_grouped = tf.reshape(q, [B * G, (H / G) * T, d]) as tf.Tensor3D
    const scores = tf.matMul(q_grouped, tf.reshape(k, [B * G, T, d]), false, true)
    let scores_BHTT = tf.add(tf.reshape(scores, [B, H, T, T]), tf.reshape(causal_TT, [1, 1, T, T]))
    if (keys_BT) scores_BHTT = tf.add(scores_BHTT, tf.reshape(keys_BT, [B, 1, 1, T]))
    const weights = tf.reshape(tf.softmax(scores_BHTT), [B * G, (H / G) * T, T])
    return tf.reshape(tf.matMul(weights, tf.reshape(v, [B * G, T, d])), [B, H, T, d]) as tf.Tensor4D
  }
}

/** The KV cache of one layer. Keys are stored transposed, so that scores are a matrix product without transposition. */
type LayerCache = { keys_BGdC: tf.Tensor; values_BGCd: tf.Tensor }

/**
 * Attention to C cached positions and causal attention to T new ones. `cached_BC` is 0 where the cache of a row is
 * filled and `MASKED` elsewhere. The new keys and values of each layer are passed to `output`; the cache is not
 * changed.
 */
export function attendCached(
  sequence: Sequence,
  C: number,
  cache: (layer: number) => LayerCache,
  cached_BC: tf.Tensor,
  causal_TT: tf.Tensor,
  output: (layer: number, k_BGTd: tf.Tensor4D, v_BGTd: tf.Tensor4D) => void,
): Attend {
  const { config, B, T } = sequence
  const { heads: H, kvHeads: G, headDim: d } = config
  const rows = (H / G) * T
  return (layer, q, k, v) => {
    output(layer, k, v)
    const past = cache(layer)
    const q_grouped = tf.reshape(q, [B * G, rows, d]) as tf.Tensor3D
    const pastScores = tf.matMul(q_grouped, tf.reshape(past.keys_BGdC, [B * G, d, C]) as tf.Tensor3D)
    const newScores = tf.matMul(q_grouped, tf.reshape(k, [B * G, T, d]) as tf.Tensor3D, false, true)
    const scores = tf.concat(
      [
        tf.add(tf.reshape(pastScores, [B, H, T, C]), tf.reshape(cached_BC, [B, 1, 1, C])),
        tf.add(tf.reshape(newScores, [B, H, T, T]), tf.reshape(causal_TT, [1, 1, T, T])),
      ],
      -1,
    )
    const [pastWeights, newWeights] = tf.split(tf.softmax(scores), [C, T], -1) as [tf.Tensor, tf.Tensor]
    const fromPast = tf.matMul(
      tf.reshape(pastWeights, [B * G, rows, C]) as tf.Tensor3D,
      tf.reshape(past.values_BGCd, [B * G, C, d]) as tf.Tensor3D,
    )
    const fromNew = tf.matMul(
      tf.reshape(newWeights, [B * G, rows, T]) as tf.Tensor3D,
      tf.reshape(v, [B * G, T, d]) as tf.Tensor3D,
    )
    return tf.reshape(tf.add(fromPast, fromNew), [B, H, T, d]) as tf.Tensor4D
  }
}
