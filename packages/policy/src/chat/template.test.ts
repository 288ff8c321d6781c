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

test('templates with long loops fail with bad_request', () => {
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

/** Sets ns.x to `2 ** times` repetitions of `pattern`. */
const repeated = (pattern: string, times: number): string =>
  `{% set ns = namespace(x="${pattern}") %}{% for i in range(${times}) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}`
const LONG_TEXT = repeated('abcdefghabcdefgh', 13)
/** Sets ns.x to a nested list whose text has 2 ** 40 entries. */
const NESTED = '{% set ns = namespace(x=["x"]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}'
const loop = (work: string): string => `{% for i in range(10000) %}{% set y = ${work} %}{% endfor %}`
const HOSTILE: readonly (readonly [name: string, source: string])[] = [
  ['replace of each character of a long text', `${repeated('aaaaaaaa', 18)}${loop('ns.x.replace("a", "b")')}`],
  ['title case of a long text', `${repeated('a a a a ', 19)}${loop('ns.x.title()')}`],
  ['a method called through a variable', `${LONG_TEXT}{% set f = ns.x.split %}${loop('f("zzzzzzzz")')}`],
  ['replace with a long text', `${LONG_TEXT}{{ ns.x.replace("a", ns.x) }}`],
  ['join with a long separator', `${LONG_TEXT}{{ ns.x | join(ns.x) }}`],
  ['a wide indent', `${LONG_TEXT}{{ ns.x.replace("a", "\\n") | indent(100000000) }}`],
  ['JSON with a wide indent', '{{ [[[1]]] | tojson(indent=100000000) }}'],
  ['JSON of a nested list', `${NESTED}{{ ns.x | tojson | length }}`],
  ['output of a nested list', `${NESTED}{{ ns.x }}`],
  ['concatenation of a nested list and a string', `${NESTED}{% set y = ns.x ~ "" %}`],
  ['conversion of a nested list to a string', `${NESTED}{% set y = ns.x | string %}`],
  ['comparison of a nested list', `${NESTED}{% set y = ns.x == "a" %}`],
  ['a nested list as an exception message', `${NESTED}{{ raise_exception(ns.x) }}`],
  ['a nested list as an argument of range', `${NESTED}{{ range(ns.x) }}`],
  ['nested loops over an object', '{% for a in messages[0] %}'.repeat(6) + '{% endfor %}'.repeat(6)],
  ['a range beyond the safe integers', '{{ range(9007199254740992, 9007199254740996) }}'],
  [
    'repeated definition of a long macro',
    `{% for i in range(10000) %}{% macro f() %}${'{{ a }}'.repeat(20_000)}{% endmacro %}{% endfor %}`,
  ],
]
/** For the steps that every conversation has; they take 0.1 s on two idle cores. */
const MOST_MS = 3000
/** For two million steps; they take 0.8 s. */
const MOST_MS_OF_ALL = 10_000

for (const [name, source] of HOSTILE)
  test(`a template fails within its limit of steps: ${name}`, () => {
    const template = new ChatTemplate(source)
    const message = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`field ${i}`, 'x']))
    const from = performance.now()
    assert.throws(
      () => template.render({ ...input, messages: [message] }),
      /more than \d+ steps|must be integers|no reason given/,
    )
    const ms = performance.now() - from
    assert.ok(ms < MOST_MS, `${ms} ms`)
  })

test('the limit is two million steps for a conversation of any length', () => {
  const messages = Array.from({ length: 50_000 }, () => ({ role: 'user', content: 'a b c '.repeat(10) }))
  const template = new ChatTemplate(
    `{% for m in messages %}{% for n in messages %}{{ m.content.title() }}{% endfor %}{% endfor %}`,
  )
  const from = performance.now()
  assert.throws(() => template.render({ ...input, messages }), /more than 2000000 steps/)
  const ms = performance.now() - from
  assert.ok(ms < MOST_MS_OF_ALL, `${ms} ms`)
})

test('the template of models/tiny renders 2000 repeated messages within its limit of steps', () => {
  const messages = Array.from({ length: 2000 }, (_, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content: 'word '.repeat(200),
  }))
  const config = JSON.parse(
    readFileSync(new URL('../../../../models/tiny/tokenizer_config.json', import.meta.url), 'utf8'),
  ) as { chat_template?: string }
  const source =
    config.chat_template ??
    readFileSync(new URL('../../../../models/tiny/chat_template.jinja', import.meta.url), 'utf8')
  assert.ok(new ChatTemplate(source).render({ ...input, messages }).length > 2_000_000)
})
