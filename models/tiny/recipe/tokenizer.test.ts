import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Template } from '@huggingface/jinja'
import { Tokenizer } from '@huggingface/tokenizers'
import { encoder, trainBpe } from './bpe.ts'
import { pieces } from './chat.ts'
import type { Conversation } from './chat.ts'
import { converse } from './corpus.ts'
import { seeded } from './random.ts'

const read = (name: string): string => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8')
const json = JSON.parse(read('tokenizer.json')) as {
  model: { vocab: Record<string, number>; merges: [string, string][] }
}
const tokenizer = new Tokenizer(json, JSON.parse(read('tokenizer_config.json')) as object)
const encode = encoder({
  vocabulary: Object.keys(json.model.vocab).sort((a, b) => json.model.vocab[a]! - json.model.vocab[b]!),
  merges: json.model.merges,
})
const template = new Template(read('chat_template.jinja'))

const render = ({ tools, turns }: Conversation): string =>
  template.render({
    messages: turns.map(({ role, content, toolCalls }) => ({
      role,
      content,
      ...(toolCalls === undefined ? {} : { tool_calls: toolCalls }),
    })),
    tools: tools.length > 0 ? tools : null,
    add_generation_prompt: false,
  })

test('any text round-trips', () => {
  const texts = [
    ' ',
    '  two  spaces ',
    '\n\n\ttabs\r\n',
    'naïve café — “quotes”…',
    '😊👩‍👩‍👧‍👦🏳️‍🌈',
    '日本語のテキスト 中文 한국어',
    'العربية עברית',
    'x²³ ½ ١٢٣',
    '\u0000\u0001\u007f\u0080\u00ff\u200b\ufeff',
    '$\\boxed{12}$ **bold** `code` 12345678901234567890 3.14',
    'x = {"a": [1, 2]}; // <|not a token|>',
    '𝒳𝒴\u{10ffff}',
  ]
  for (const text of texts)
    assert.equal(
      tokenizer.decode(tokenizer.encode(text, { add_special_tokens: false }).ids, { skip_special_tokens: true }),
      text,
    )
  const random = seeded(5)
  for (let i = 0; i < 200; i++) {
    const text = Array.from({ length: 30 }, () => String.fromCodePoint(Math.floor(random() * 0xd7ff))).join('')
    assert.equal(
      tokenizer.decode(tokenizer.encode(text, { add_special_tokens: false }).ids, { skip_special_tokens: true }),
      text,
    )
  }
})

test('numbers to 120 are single tokens, with and without a space', () => {
  for (let n = 0; n <= 120; n++) {
    assert.equal(tokenizer.encode(String(n)).ids.length, 1, String(n))
    assert.equal(tokenizer.encode(` ${n}`).ids.length, 1, ` ${n}`)
  }
})

test('the recipe renders and encodes as the template and the Hugging Face tokenizer do', () => {
  const random = seeded(7)
  let withTools = 0
  for (let i = 0; i < 400; i++) {
    const conversation = converse(random)
    if (conversation.tools.length > 0) withTools++
    const rendered = render(conversation)
    assert.equal(
      pieces(conversation)
        .map((piece) => piece.text)
        .join(''),
      rendered,
    )
    assert.deepEqual(
      pieces(conversation).flatMap((piece) => encode(piece.text)),
      tokenizer.encode(rendered, { add_special_tokens: false }).ids,
    )
  }
  assert.ok(withTools > 2)
})

test('the template renders roles, tools, calls and the generation prompt', () => {
  const tool = {
    type: 'function',
    function: { name: 'get_time', description: 'Time', parameters: { type: 'object', properties: {} } },
  }
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Time?' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'get_time', arguments: '{"city": "Rome"}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: '9' },
  ]
  assert.equal(
    template.render({ messages, tools: [tool], add_generation_prompt: true }),
    [
      '<|im_start|>system\nBe brief.\n\nYou can call these tools. Answer with <tool_call>{"name": ..., "arguments": ...}</tool_call> to call one.\n<tools>\n',
      '{"type": "function", "function": {"name": "get_time", "description": "Time", "parameters": {"type": "object", "properties": {}}}}\n</tools><|im_end|>\n',
      '<|im_start|>user\nTime?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{"name": "get_time", "arguments": {"city": "Rome"}}\n</tool_call><|im_end|>\n',
      '<|im_start|>tool\n9<|im_end|>\n<|im_start|>assistant\n',
    ].join(''),
  )
  assert.equal(
    template.render({ messages: [{ role: 'user', content: 'Hi' }], add_generation_prompt: false }),
    '<|im_start|>user\nHi<|im_end|>\n',
  )
})

test('training merges the most frequent pair first and stops at the minimum', () => {
  const bpe = trainBpe(['abab abab abab', 'ab'], 10_000, 3)
  const learned = bpe.merges.slice(-3).map(([l, r]) => l + r)
  assert.deepEqual(
    learned,
    ['1', 'ab', 'abab'].map((t, i) => (i === 0 ? learned[0] : t)),
  )
  assert.equal(trainBpe(['abab'], 10_000, 3).merges.length, bpe.merges.length - 3 + 1)
})
