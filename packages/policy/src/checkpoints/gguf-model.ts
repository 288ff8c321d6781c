/**
 * Maps a GGUF file to the decoder: metadata to a ModelConfig, tensor names to Hugging Face names, and, for `llama`, the
 * rows of q and k to half-rotate order (llama.cpp's converter stores them for interleaved RoPE).
 */
import { badCheckpoint } from './bad-checkpoint.ts'
import type { ModelConfig, WeightTensor } from '../weights.ts'
import type { Gguf, GgufTensor, GgufValue } from './gguf.ts'

const ARCHITECTURES = ['llama', 'qwen2', 'qwen3']

/** A metadata entry as a finite number. Throws `bad_checkpoint` if it is missing and has no fallback. */
function number(gguf: Gguf, file: string, key: string, fallback?: number): number {
  const value: GgufValue | undefined = gguf.metadata.get(key)
  if (value === undefined && fallback !== undefined) return fallback
  const result = typeof value === 'bigint' ? Number(value) : value
  if (typeof result !== 'number' || !Number.isFinite(result))
    throw badCheckpoint(file, `metadata ${key} is ${value === undefined ? 'missing' : 'not a number'}`)
  return result
}

/** Throws `bad_checkpoint` for missing metadata and architectures that are not supported. */
export function ggufConfig(gguf: Gguf, file: string): ModelConfig {
  const arch = gguf.metadata.get('general.architecture')
  if (typeof arch !== 'string' || !ARCHITECTURES.includes(arch))
    throw badCheckpoint(
      file,
      `the architecture is ${typeof arch === 'string' ? JSON.stringify(arch.slice(0, 100)) : 'missing'}; supported are ${ARCHITECTURES.join(', ')}`,
    )
  const field = (name: string, fallback?: number) => number(gguf, file, `${arch}.${name}`, fallback)
  const scaling = gguf.metadata.get(`${arch}.rope.scaling.type`)
  if ((scaling !== undefined && scaling !== 'none') || gguf.tensors.has('rope_freqs.weight'))
    throw badCheckpoint(file, 'RoPE scaling is not supported')
  const hiddenSize = field('embedding_length')
  const heads = field('attention.head_count')
  const embedding = gguf.tensors.get('token_embd.weight')
  if (!embedding) throw badCheckpoint(file, 'tensor "token_embd.weight" is missing')
  return {
    hiddenSize,
    intermediateSize: field('feed_forward_length'),
    layers: field('block_count'),
    heads,
    kvHeads: field('attention.head_count_kv', heads),
    headDim: field('attention.key_length', hiddenSize / heads),
    vocabulary: embedding.shape[0] ?? 0,
    contextLength: field('context_length'),
    ropeTheta: field('rope.freq_base', 10000),
    rmsEps: field('attention.layer_norm_rms_epsilon'),
    qkNorm: gguf.tensors.has('blk.0.attn_q_norm.weight'),
    attentionBias: gguf.tensors.has('blk.0.attn_q.bias'),
    tiedHead: !gguf.tensors.has('output.weight'),
  }
}

/** Hugging Face names of tensors outside the layers, and inside a layer, by ggml name. */
const OUTER: Record<string, string> = { token_embd: 'model.embed_tokens', output_norm: 'model.norm', output: 'lm_head' }
const INNER: Record<string, string> = {
  attn_norm: 'input_layernorm',
  ffn_norm: 'post_attention_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  attn_q_norm: 'self_attn.q_norm',
  attn_k_norm: 'self_attn.k_norm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
}

/** `blk.3.attn_q.weight` becomes `model.layers.3.self_attn.q_proj.weight`; null for an unknown name. */
function huggingFaceName(name: string): string | null {
  const parts = /^(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)$/.exec(name)
  if (!parts) return null
  const [, layer, part, kind] = parts as unknown as [string, string | undefined, string, string]
  const names = layer === undefined ? OUTER : INNER
  if (!Object.hasOwn(names, part)) return null
  return `${layer === undefined ? '' : `model.layers.${layer}.`}${names[part]}.${kind}`
}

/** The tensors of the file by Hugging Face name. Throws `bad_checkpoint` for a tensor that the decoder does not use. */
export function ggufTensors(gguf: Gguf, file: string): Map<string, GgufTensor> {
  const out = new Map<string, GgufTensor>()
  for (const [name, tensor] of gguf.tensors) {
    const mapped = huggingFaceName(name)
    if (mapped === null)
      throw badCheckpoint(file, `tensor ${JSON.stringify(name.slice(0, 200))} is not supported by the decoder`)
    out.set(mapped, tensor)
  }
  return out
}

/** Row h·d + j·d/2 + i of `into` is row h·d + 2i + j of `data`, for head h, i < d/2 and j < 2. */
function unpermuteRows(
  data: Float32Array | Uint8Array,
  into: Float32Array | Uint8Array,
  rows: number,
  headDim: number,
): void {
  const width = data.length / rows
  const half = headDim / 2
  for (let head = 0; head < rows; head += headDim) {
    for (let j = 0; j < 2; j++) {
      for (let i = 0; i < half; i++) {
        const from = (head + 2 * i + j) * width
        into.set(data.subarray(from, from + width), (head + j * half + i) * width)
      }
    }
  }
}

export function unpermute(tensor: WeightTensor, headDim: number): WeightTensor {
  const data = new Float32Array(tensor.data.length)
  unpermuteRows(tensor.data, data, tensor.shape[0] ?? 0, headDim)
  return { shape: tensor.shape, data }
}

/** `unpermute` for rows of quantised blocks. */
export function unpermuteBlocks(bytes: Uint8Array, rows: number, headDim: number): Uint8Array {
  const out = new Uint8Array(bytes.length)
  unpermuteRows(bytes, out, rows, headDim)
  return out
}

/** Whether the file stores the rows of this weight or bias permuted. */
export function isPermuted(gguf: Gguf, name: string): boolean {
  return gguf.metadata.get('general.architecture') === 'llama' && /\.self_attn\.[qk]_proj\.(weight|bias)$/.test(name)
}
