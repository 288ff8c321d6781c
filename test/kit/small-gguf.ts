/** A small random Llama or Qwen3 as a GGUF file, with the byte tokenizer of the random model. */
import { byteAlphabet } from '@instar/policy/tokenizer/bytes'
import { weightShapes, type ModelConfig, type WeightTensor } from '@instar/policy/weights'
import { randomTensor, TEMPLATE } from './random-model.ts'
import { writeGguf, type Quantisation, type Value } from './gguf-writer.ts'

export const LLAMA: ModelConfig = {
  hiddenSize: 64,
  intermediateSize: 96,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  vocabulary: 259,
  contextLength: 128,
  ropeTheta: 10000,
  rmsEps: 2 ** -17,
  qkNorm: false,
  attentionBias: false,
  tiedHead: true,
}

const NAMES: [RegExp, string][] = [
  [/^model\.embed_tokens/, 'token_embd'],
  [/^model\.norm/, 'output_norm'],
  [/^lm_head/, 'output'],
  [/^model\.layers\./, 'blk.'],
  [/input_layernorm/, 'attn_norm'],
  [/post_attention_layernorm/, 'ffn_norm'],
  [/self_attn\.o_proj/, 'attn_output'],
  [/self_attn\.([qkv])_proj/, 'attn_$1'],
  [/self_attn\.([qk])_norm/, 'attn_$1_norm'],
  [/mlp\.(gate|up|down)_proj/, 'ffn_$1'],
]

/** Half-rotate rows → interleaved rows: row h·d + 2i + j of the result is row h·d + j·d/2 + i. */
function permute(tensor: WeightTensor, d: number): WeightTensor {
  const width = tensor.shape[1] ?? 1
  const data = new Float32Array(tensor.data.length)
  for (let row = 0; row < (tensor.shape[0] ?? 0); row++) {
    const [head, at] = [row - (row % d), row % d]
    const [j, i] = [at % 2, Math.floor(at / 2)]
    const from = (head + j * (d / 2) + i) * width
    data.set(tensor.data.subarray(from, from + width), row * width)
  }
  return { shape: tensor.shape, data }
}

export function smallWeights(config: ModelConfig): Map<string, WeightTensor> {
  return new Map(weightShapes(config).map(([name, shape], i) => [name, randomTensor(shape, 0.5, i)]))
}

/** Norms stay f32, as converters write them. */
export function smallGguf(config: ModelConfig, type: Quantisation, weights = smallWeights(config)): Uint8Array {
  const arch = config.qkNorm ? 'qwen3' : 'llama'
  const metadata = new Map<string, Value>([
    ['general.architecture', { string: arch }],
    [`${arch}.context_length`, { u32: config.contextLength }],
    [`${arch}.embedding_length`, { u32: config.hiddenSize }],
    [`${arch}.block_count`, { u32: config.layers }],
    [`${arch}.feed_forward_length`, { u32: config.intermediateSize }],
    [`${arch}.attention.head_count`, { u32: config.heads }],
    [`${arch}.attention.head_count_kv`, { u32: config.kvHeads }],
    [`${arch}.attention.key_length`, { u32: config.headDim }],
    [`${arch}.attention.layer_norm_rms_epsilon`, { f32: config.rmsEps }],
    [`${arch}.rope.freq_base`, { f32: config.ropeTheta }],
    ['tokenizer.ggml.model', { string: 'gpt2' }],
    ['tokenizer.ggml.pre', { string: 'smollm' }],
    ['tokenizer.ggml.tokens', { strings: [...byteAlphabet(), '<|endoftext|>', '<|im_start|>', '<|im_end|>'] }],
    ['tokenizer.ggml.token_type', { i32s: Array.from({ length: 259 }, (_, id) => (id < 256 ? 1 : 3)) }],
    ['tokenizer.ggml.merges', { strings: [] }],
    ['tokenizer.ggml.eos_token_id', { u32: 258 }],
    ['tokenizer.chat_template', { string: TEMPLATE }],
  ])
  const tensors = new Map<string, WeightTensor & { type: Quantisation }>()
  for (const [name, tensor] of weights) {
    const short = NAMES.reduce((text, [from, to]) => text.replace(from, to), name)
    const stored = !config.qkNorm && /[qk]_proj/.test(name) ? permute(tensor, config.headDim) : tensor
    tensors.set(short, { ...stored, type: tensor.shape.length === 1 ? 'f32' : type })
  }
  return writeGguf(metadata, tensors)
}
