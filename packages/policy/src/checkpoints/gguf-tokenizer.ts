/**
 * Converts the tokenizer of a GGUF file (byte-level BPE, `tokenizer.ggml.model` gpt2) to the contents of tokenizer.json
 * and tokenizer_config.json of a Hugging Face folder.
 */
import { badCheckpoint } from './bad-checkpoint.ts'
import type { Gguf, GgufValue } from './gguf.ts'
import type { JsonObject } from '@instar/events/json'

/** The pattern of Qwen2's pre-tokenizer, named `qwen2` in llama.cpp. */
const QWEN2_SPLIT =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const byteLevel = (useRegex: boolean): JsonObject => ({
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: useRegex,
})

/** Pre-tokenizers by their name in `tokenizer.ggml.pre`. */
const PRE_TOKENIZERS: Record<string, { normalizer: JsonObject | null; pre_tokenizer: JsonObject }> = {
  'gpt-2': { normalizer: null, pre_tokenizer: byteLevel(true) },
  smollm: {
    normalizer: null,
    pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'Digits', individual_digits: true }, byteLevel(true)] },
  },
  qwen2: {
    normalizer: { type: 'NFC' },
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: QWEN2_SPLIT }, behavior: 'Isolated', invert: false },
        byteLevel(false),
      ],
    },
  },
}

/** Values of `tokenizer.ggml.token_type`. */
const CONTROL = 3
const USER_DEFINED = 4

function strings(value: GgufValue | undefined, key: string, file: string): string[] {
  if (!Array.isArray(value) || !value.every((entry): entry is string => typeof entry === 'string'))
    throw badCheckpoint(file, `metadata ${key} is not an array of strings`)
  return value
}

/** Contents of tokenizer.json and tokenizer_config.json, and the source of the chat template if there is one. */
export type TokenizerFiles = { tokenizer: JsonObject; config: JsonObject; template: string | null }

/** Throws `bad_checkpoint` if the tokenizer is incomplete or its kind is not supported. */
export function ggufTokenizer(gguf: Gguf, file: string): TokenizerFiles {
  const get = (key: string) => gguf.metadata.get(`tokenizer.${key}`)
  const model = get('ggml.model')
  if (model !== 'gpt2')
    throw badCheckpoint(
      file,
      `tokenizer ${typeof model === 'string' ? JSON.stringify(model.slice(0, 100)) : 'of unknown kind'} is not supported, only gpt2 (byte-level BPE)`,
    )
  const pre = get('ggml.pre') ?? 'gpt-2'
  const split = typeof pre === 'string' && Object.hasOwn(PRE_TOKENIZERS, pre) ? PRE_TOKENIZERS[pre] : undefined
  if (!split)
    throw badCheckpoint(
      file,
      `pre-tokenizer ${typeof pre === 'string' ? JSON.stringify(pre.slice(0, 100)) : 'of unknown kind'} is not supported, only ${Object.keys(PRE_TOKENIZERS).join(', ')}`,
    )
  const tokens = strings(get('ggml.tokens'), 'tokenizer.ggml.tokens', file)
  const merges = strings(get('ggml.merges'), 'tokenizer.ggml.merges', file)
  const kinds = get('ggml.token_type')
  if (!Array.isArray(kinds) || kinds.length !== tokens.length)
    throw badCheckpoint(
      file,
      `metadata tokenizer.ggml.token_type is not an array of ${tokens.length} values, one per token`,
    )
  const vocabulary = new Map<string, number>()
  const added: JsonObject[] = []
  for (const [id, token] of tokens.entries()) {
    if (vocabulary.has(token)) throw badCheckpoint(file, `token ${JSON.stringify(token.slice(0, 200))} occurs twice`)
    vocabulary.set(token, id)
    const kind = kinds[id]
    if (kind !== CONTROL && kind !== USER_DEFINED) continue
    if (token === '') throw badCheckpoint(file, `control token ${id} is empty`)
    added.push({
      id,
      content: token,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: kind === CONTROL,
    })
  }
  if (!merges.every((merge) => /^\S+ \S+$/u.test(merge)))
    throw badCheckpoint(file, 'metadata tokenizer.ggml.merges contains an entry that is not a pair of tokens')
  const token = (key: string): string | null => {
    const id = get(`ggml.${key}`)
    return typeof id === 'number' ? (tokens[id] ?? null) : null
  }
  const template = get('chat_template')
  return {
    tokenizer: {
      version: '1.0',
      truncation: null,
      padding: null,
      added_tokens: added,
      ...split,
      post_processor: null,
      decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: '',
        end_of_word_suffix: '',
        fuse_unk: false,
        byte_fallback: false,
        vocab: Object.fromEntries(vocabulary),
        merges,
      },
    },
    config: { bos_token: token('bos_token_id'), eos_token: token('eos_token_id'), clean_up_tokenization_spaces: false },
    template: typeof template === 'string' ? template : null,
  }
}
