import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readFileSync } from 'node:fs'
import { ChatTemplate } from './template.ts'

const input = {
  messages: [{ role: 'user', content: 'Hi' }],
  tools: null,
  addGenerationPrompt: true,
  bosToken: '',
  eosToken: '',
  now: null,
}

test('a template that loops for long is given up after the same number of steps everywhere', () => {
  const hostile = [
    '{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}',
    '{% for i in range(1000) %}{% for j in range(1000) %}{{ i * j }}{% endfor %}{% endfor %}',
    '{% for i in range(1000) %}{% set x = range(100000) %}{% endfor %}',
    '{% set ns = namespace(x="xxxxxxxx") %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}',
    '{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}',
  ]
  for (const source of hostile)
    assert.throws(() => new ChatTemplate(source).render(input), { code: 'bad_request' }, source)
})

test('a long conversation is within the steps of the template that ships, ten times over', () => {
  const said = Array.from({ length: 2000 }, (_, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content: 'word '.repeat(200),
  }))
  const config = JSON.parse(
    readFileSync(new URL('../../../../models/tiny/tokenizer_config.json', import.meta.url), 'utf8'),
  ) as { chat_template?: string }
  const source =
    config.chat_template ??
    readFileSync(new URL('../../../../models/tiny/chat_template.jinja', import.meta.url), 'utf8')
  assert.ok(new ChatTemplate(source).render({ ...input, messages: said }).length > 2_000_000)
})
