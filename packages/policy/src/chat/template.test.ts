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

/** A text of `pattern` again and again, `2 ** times` of them. */
const long = (pattern: string, times: number): string =>
  `{% set ns = namespace(x="${pattern}") %}{% for i in range(${times}) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}`
const LONG = long('abcdefghabcdefgh', 13)
/** A list that is written in two to the power of forty entries. */
const SHARED = '{% set ns = namespace(x=["x"]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}'
const often = (work: string): string => `{% for i in range(10000) %}{% set y = ${work} %}{% endfor %}`
const HOSTILE: readonly (readonly [name: string, source: string])[] = [
  ['each character of a long text replaced', `${long('aaaaaaaa', 18)}${often('ns.x.replace("a", "b")')}`],
  ['each word of a long text in capitals', `${long('a a a a ', 19)}${often('ns.x.title()')}`],
  ['a method under another name', `${LONG}{% set f = ns.x.split %}${often('f("zzzzzzzz")')}`],
  ['long texts put into a long one', `${LONG}{{ ns.x.replace("a", ns.x) }}`],
  ['a long text between the characters of one', `${LONG}{{ ns.x | join(ns.x) }}`],
  ['a wide margin', `${LONG}{{ ns.x.replace("a", "\\n") | indent(100000000) }}`],
  ['JSON with a wide margin', '{{ [[[1]]] | tojson(indent=100000000) }}'],
  ['JSON of what is shared', `${SHARED}{{ ns.x | tojson | length }}`],
  ['what is shared, written out', `${SHARED}{{ ns.x }}`],
  ['what is shared, beside a text', `${SHARED}{% set y = ns.x ~ "" %}`],
  ['what is shared, as a text', `${SHARED}{% set y = ns.x | string %}`],
  ['what is shared, compared', `${SHARED}{% set y = ns.x == "a" %}`],
  ['what is shared, as a reason', `${SHARED}{{ raise_exception(ns.x) }}`],
  ['what is shared, as a number', `${SHARED}{{ range(ns.x) }}`],
  ['entries of an object', '{% for a in messages[0] %}'.repeat(6) + '{% endfor %}'.repeat(6)],
  ['a range of numbers that do not grow', '{{ range(9007199254740992, 9007199254740996) }}'],
  [
    'a long macro, read again and again',
    `{% for i in range(10000) %}{% macro f() %}${'{{ a }}'.repeat(20_000)}{% endmacro %}{% endfor %}`,
  ],
]
/** Of one rendering in the steps that every conversation has; they take 0.1 s on two idle cores. */
const MOST_MS = 3000
/** In two million steps; they take 0.8 s. */
const MOST_MS_OF_ALL = 10_000

for (const [name, source] of HOSTILE)
  test(`a template is given up in time: ${name}`, () => {
    const template = new ChatTemplate(source)
    const message = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`field ${i}`, 'x']))
    const from = performance.now()
    assert.throws(
      () => template.render({ ...input, messages: [message] }),
      /more than \d+ steps|takes whole numbers|not say why/,
    )
    const ms = performance.now() - from
    assert.ok(ms < MOST_MS, `${ms} ms`)
  })

test('no conversation makes room for more than two million steps', () => {
  const messages = Array.from({ length: 50_000 }, () => ({ role: 'user', content: 'a b c '.repeat(10) }))
  const template = new ChatTemplate(
    `{% for m in messages %}{% for n in messages %}{{ m.content.title() }}{% endfor %}{% endfor %}`,
  )
  const from = performance.now()
  assert.throws(() => template.render({ ...input, messages }), /more than 2000000 steps/)
  const ms = performance.now() - from
  assert.ok(ms < MOST_MS_OF_ALL, `${ms} ms`)
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
