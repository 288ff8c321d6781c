/** SmolLM2-135M-Instruct as a folder for vLLM, converted from its GGUF file to float32 by our reader. */
import { openCheckpoint } from '@instar/policy/checkpoints/folder'
import { writeSafetensors, type Tensor } from '@instar/policy/checkpoints/safetensors'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fetchSmolLM2 } from '../../../cli/src/smollm2.ts'

const CACHE = resolve(import.meta.dirname, '../../../.cache')

export const smolLM2 = async (): Promise<string> => {
  const folder = join(CACHE, 'SmolLM2-135M-Instruct')
  if (existsSync(folder)) return folder
  const { config, tokenizer, weights } = openCheckpoint(await fetchSmolLM2(CACHE))
  const draft = `${folder}.draft`
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { recursive: true })
  const write = (name: string, value: unknown): void => writeFileSync(join(draft, name), JSON.stringify(value))
  const idOf = (token: unknown): unknown =>
    (tokenizer.tokenizer['model'] as { vocab: Record<string, number> }).vocab[String(token)]
  const ids = { bos_token_id: idOf(tokenizer.config['bos_token']), eos_token_id: idOf(tokenizer.config['eos_token']) }
  write('config.json', {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_act: 'silu',
    torch_dtype: 'float32',
    attention_bias: false,
    mlp_bias: false,
    ...ids,
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
  })
  write('generation_config.json', ids)
  write('tokenizer.json', tokenizer.tokenizer)
  write('tokenizer_config.json', {
    ...tokenizer.config,
    tokenizer_class: 'PreTrainedTokenizerFast',
    chat_template: tokenizer.template,
  })
  writeFileSync(
    join(draft, 'model.safetensors'),
    writeSafetensors(
      new Map(
        weights.names().map((name): [string, Tensor] => {
          const { shape, data } = weights.get(name)
          return [name, { dtype: 'F32', shape, data }]
        }),
      ),
      new Map([['format', 'pt']]),
    ),
  )
  renameSync(draft, folder)
  return folder
}
