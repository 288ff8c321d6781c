/** A model folder with random weights and one token for each byte: small enough to start in a second. */
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { writeSafetensors, type Tensor } from '@instar/policy/checkpoints/safetensors'
import { moduleName, writeAdapter } from '@instar/policy/checkpoints/peft'
import { byteAlphabet } from '@instar/policy/tokenizer/bytes'
import { uniform } from '@instar/policy/serve/random'
import { PROJECTIONS, projectionShape, weightShapes, type ModelConfig, type WeightTensor } from '@instar/policy/weights'
import type { Adapter } from '@instar/engine/port'

export const CONFIG: ModelConfig = {
  hiddenSize: 32,
  intermediateSize: 64,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 8,
  vocabulary: 264,
  contextLength: 256,
  ropeTheta: 10000,
  rmsEps: 1e-6,
  qkNorm: true,
  attentionBias: false,
  tiedHead: true,
}

/** Approximately normal numbers that depend on `seed` alone. */
export function randomTensor(shape: readonly number[], scale: number, seed: number): WeightTensor {
  const size = shape.reduce((a, b) => a * b, 1)
  return {
    shape,
    data: Float32Array.from(
      { length: size },
      (_, i) => scale * (uniform(seed, 2 * i) + uniform(seed, 2 * i + 1) - 1) * 2.45,
    ),
  }
}

export const TEMPLATE =
  "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

const SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']

function byteTokenizer(): Record<string, unknown> {
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    normalizer: null,
    post_processor: null,
    added_tokens: SPECIAL.map((content, i) => ({
      id: 256 + i,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      byte_fallback: false,
      vocab: Object.fromEntries(byteAlphabet().map((character, byte) => [character, byte])),
      merges: [],
    },
  }
}

/** Writes the folder and returns its path. */
export function writeRandomModel(folder: string, config: ModelConfig = CONFIG): string {
  mkdirSync(folder, { recursive: true })
  const tensors = new Map<string, Tensor>()
  for (const [i, [name, shape]] of weightShapes(config).entries()) {
    const norm = name.endsWith('norm.weight')
    const tensor = norm
      ? { shape, data: new Float32Array(shape[0] ?? 0).fill(1) }
      : randomTensor(shape, name.includes('embed') ? 0.6 : 0.15, 1000 + i)
    tensors.set(name, { dtype: 'F32', ...tensor })
  }
  const json = (name: string, value: unknown) => writeFileSync(path.join(folder, name), JSON.stringify(value))
  json('config.json', {
    model_type: config.qkNorm ? 'qwen3' : 'llama',
    hidden_size: config.hiddenSize,
    intermediate_size: config.intermediateSize,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headDim,
    vocab_size: config.vocabulary,
    max_position_embeddings: config.contextLength,
    rope_theta: config.ropeTheta,
    rms_norm_eps: config.rmsEps,
    tie_word_embeddings: config.tiedHead,
    hidden_act: 'silu',
  })
  json('tokenizer.json', byteTokenizer())
  json('tokenizer_config.json', { eos_token: '<|im_end|>', bos_token: null })
  json('generation_config.json', { eos_token_id: [258], temperature: 0.7 })
  writeFileSync(path.join(folder, 'chat_template.jinja'), TEMPLATE)
  writeFileSync(path.join(folder, 'model.safetensors'), writeSafetensors(tensors))
  return folder
}

export function randomAdapter(seed: number, rank = 4, config: ModelConfig = CONFIG): Adapter {
  const modules = new Map<string, { a: WeightTensor; b: WeightTensor }>()
  for (let layer = 0; layer < config.layers; layer++) {
    for (const projection of PROJECTIONS) {
      const [out, inner] = projectionShape(config, projection)
      const at = seed * 10000 + layer * 100 + PROJECTIONS.indexOf(projection) * 2
      modules.set(moduleName(layer, projection), {
        a: randomTensor([rank, inner], 0.3, at),
        b: randomTensor([out, rank], 0.3, at + 1),
      })
    }
  }
  return writeAdapter({ rank, alpha: 2 * rank, modules }, 'random')
}
