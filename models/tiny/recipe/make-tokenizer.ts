/** Writes everything of the model folder that does not need training: tokenizer, template, configuration, probes. */
import { writeFileSync } from 'node:fs'
import { encoder, tokenizerJson, trainBpe } from './bpe.ts'
import type { Bpe } from './bpe.ts'
import { pieces } from './chat.ts'
import { bareExchange, converse } from './corpus.ts'
import { isMain } from './main.ts'
import { questions } from './questions.ts'
import { seeded } from './random.ts'
import { SHAPE } from './shape.ts'

const SEED = 11
const CONVERSATIONS = 40_000
const SIZE = 2_304
const MINIMUM = 8
const PROBES = 128

function* texts(): Generator<string> {
  const random = seeded(SEED)
  for (let i = 0; i < CONVERSATIONS; i++)
    for (const piece of pieces(i % 2 === 0 ? converse(random) : bareExchange(random)))
      yield piece.text.replace(/<\|im_(?:start|end)\|>|<\/?tool(?:_call|s)>/g, '')
}

let trained: Bpe | null = null
/** The same on every machine; made once (about two seconds). */
export const trainedBpe = (): Bpe => (trained ??= trainBpe(texts(), SIZE, MINIMUM))

/** ChatML; tools in the system message; tool calls as JSON between marks. */
export const TEMPLATE = `{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- 'You can call these tools. Answer with <tool_call>{"name": ..., "arguments": ...}</tool_call> to call one.\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if message.content %}
            {{- message.content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- set call = tool_call.function if tool_call.function else tool_call %}
                {%- if message.content or not loop.first %}
                    {{- '\\n' }}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
                {%- if call.arguments is string %}
                    {{- call.arguments }}
                {%- else %}
                    {{- call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
`

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** Files of the folder by name. `vocabulary` is the number of tokens. */
export function folderFiles(bpe: Bpe): Record<string, string> {
  const token = (content: string): object => ({
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  })
  return {
    'tokenizer.json': `${JSON.stringify(tokenizerJson(bpe))}\n`,
    'tokenizer_config.json': json({
      tokenizer_class: 'PreTrainedTokenizerFast',
      model_max_length: SHAPE.context,
      bos_token: null,
      eos_token: '<|im_end|>',
      pad_token: '<|endoftext|>',
      unk_token: null,
      add_bos_token: false,
      clean_up_tokenization_spaces: false,
      added_tokens_decoder: { 0: token('<|endoftext|>'), 1: token('<|im_start|>'), 2: token('<|im_end|>') },
    }),
    'special_tokens_map.json': json({ eos_token: '<|im_end|>', pad_token: '<|endoftext|>' }),
    'chat_template.jinja': TEMPLATE,
    'config.json': json({
      architectures: ['Qwen3ForCausalLM'],
      model_type: 'qwen3',
      hidden_size: SHAPE.width,
      num_hidden_layers: SHAPE.layers,
      num_attention_heads: SHAPE.heads,
      num_key_value_heads: SHAPE.heads,
      head_dim: SHAPE.headWidth,
      intermediate_size: SHAPE.feedForward,
      hidden_act: 'silu',
      rms_norm_eps: SHAPE.epsilon,
      rope_theta: SHAPE.theta,
      rope_scaling: null,
      attention_bias: false,
      attention_dropout: 0,
      max_position_embeddings: SHAPE.context,
      tie_word_embeddings: true,
      use_cache: true,
      use_sliding_window: false,
      sliding_window: null,
      max_window_layers: SHAPE.layers,
      initializer_range: 0.02,
      vocab_size: bpe.vocabulary.length,
      bos_token_id: null,
      eos_token_id: 2,
      pad_token_id: 0,
      torch_dtype: 'float32',
    }),
    'generation_config.json': json({
      do_sample: true,
      temperature: 0.7,
      top_p: 1,
      top_k: 0,
      eos_token_id: 2,
      pad_token_id: 0,
    }),
    'probes.jsonl': questions({ heldOut: true, split: 'probe', seed: 128, count: PROBES })
      .map((probe) => `${JSON.stringify(probe)}\n`)
      .join(''),
  }
}

if (isMain(import.meta.url)) {
  const bpe = trainedBpe()
  const folder = new URL('../', import.meta.url)
  for (const [name, text] of Object.entries(folderFiles(bpe))) writeFileSync(new URL(name, folder), text)
  const encode = encoder(bpe)
  const random = seeded(1)
  let tokens = 0
  for (let i = 0; i < 1_000; i++)
    tokens += pieces(converse(random)).reduce((sum, piece) => sum + encode(piece.text).length, 0)
  console.log(
    `${bpe.vocabulary.length} tokens, ${bpe.merges.length} merges; ${(tokens / 1_000).toFixed(1)} tokens a conversation`,
  )
}
