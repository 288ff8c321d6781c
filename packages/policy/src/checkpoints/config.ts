/** Converts Hugging Face's config.json to a ModelConfig, and validates a ModelConfig from any source. */
import { badCheckpoint } from './bad-checkpoint.ts'
import { isJsonObject, type JsonObject } from '@instar/events/json'
import { weightShapes, type ModelConfig } from '../weights.ts'

/** Supported values of model_type and their options. */
const ARCHITECTURES: Record<string, { qkNorm: boolean; attentionBias: boolean }> = {
  llama: { qkNorm: false, attentionBias: false },
  qwen2: { qkNorm: false, attentionBias: true },
  qwen3: { qkNorm: true, attentionBias: false },
}

const MAX_PARAMETERS = 2 ** 33

/** Throws `bad_checkpoint` if a value is out of range or the values contradict each other. */
export function checkConfig(config: ModelConfig, file: string): ModelConfig {
  const counts = [
    'hiddenSize',
    'intermediateSize',
    'layers',
    'heads',
    'kvHeads',
    'headDim',
    'vocabulary',
    'contextLength',
  ] as const
  for (const name of counts) {
    const value = config[name]
    if (!Number.isSafeInteger(value) || value < 1 || value > 2 ** 26)
      throw badCheckpoint(file, `${name} is ${value}, not an integer from 1 to ${2 ** 26}`)
  }
  if (config.layers > 1024) throw badCheckpoint(file, `layers is ${config.layers}; at most 1024 are supported`)
  if (config.headDim % 2 !== 0) throw badCheckpoint(file, `headDim is ${config.headDim}, which is odd`)
  if (config.heads % config.kvHeads !== 0)
    throw badCheckpoint(file, `heads is ${config.heads}, which is not a multiple of kvHeads, ${config.kvHeads}`)
  if (!(config.ropeTheta > 0) || !(config.rmsEps > 0 && config.rmsEps < 1))
    throw badCheckpoint(
      file,
      `ropeTheta is ${config.ropeTheta} (must be above 0) and rmsEps ${config.rmsEps} (between 0 and 1)`,
    )
  const parameters = weightShapes(config).reduce((sum, [, shape]) => sum + shape.reduce((a, b) => a * b, 1), 0)
  if (parameters > MAX_PARAMETERS)
    throw badCheckpoint(file, `the model has ${parameters} parameters; at most ${MAX_PARAMETERS} are supported`)
  return config
}

/** `tied`: the value of `tiedHead` if config.json has none. Throws `bad_checkpoint` for what is not supported. */
export function configFromJson(json: JsonObject, file: string, tied: boolean): ModelConfig {
  const type = json['model_type']
  const flags = typeof type === 'string' && Object.hasOwn(ARCHITECTURES, type) ? ARCHITECTURES[type] : undefined
  if (!flags)
    throw badCheckpoint(
      file,
      `model_type is ${typeof type === 'string' ? JSON.stringify(type.slice(0, 100)) : 'missing'}; supported are ${Object.keys(ARCHITECTURES).join(', ')}`,
    )
  const number = (name: string, fallback?: number): number => {
    const value = json[name] ?? fallback
    if (typeof value !== 'number')
      throw badCheckpoint(file, `${name} is ${value === undefined ? 'missing' : 'not a number'}`)
    return value
  }
  const rope = isJsonObject(json['rope_parameters'])
    ? json['rope_parameters']
    : isJsonObject(json['rope_scaling'])
      ? json['rope_scaling']
      : {}
  const ropeType = rope['rope_type'] ?? rope['type'] ?? 'default'
  if (ropeType !== 'default') throw badCheckpoint(file, 'RoPE scaling is not supported')
  if (json['use_sliding_window'] === true) throw badCheckpoint(file, 'sliding-window attention is not supported')
  if (json['mlp_bias'] === true) throw badCheckpoint(file, 'mlp_bias is not supported')
  if (json['hidden_act'] !== undefined && json['hidden_act'] !== 'silu')
    throw badCheckpoint(file, 'hidden_act other than silu is not supported')
  // With attention_bias a Llama or Qwen3 also has a bias on o_proj, which the decoder does not support.
  if (json['attention_bias'] === true && !flags.attentionBias)
    throw badCheckpoint(file, 'attention_bias is not supported for this model_type')
  const hiddenSize = number('hidden_size')
  const heads = number('num_attention_heads')
  return checkConfig(
    {
      hiddenSize,
      intermediateSize: number('intermediate_size'),
      layers: number('num_hidden_layers'),
      heads,
      kvHeads: number('num_key_value_heads', heads),
      headDim: number('head_dim', hiddenSize / heads),
      vocabulary: number('vocab_size'),
      contextLength: number('max_position_embeddings'),
      ropeTheta: typeof rope['rope_theta'] === 'number' ? rope['rope_theta'] : number('rope_theta', 10000),
      rmsEps: number('rms_norm_eps', 1e-6),
      ...flags,
      tiedHead: typeof json['tie_word_embeddings'] === 'boolean' ? json['tie_word_embeddings'] : tied,
    },
    file,
  )
}
