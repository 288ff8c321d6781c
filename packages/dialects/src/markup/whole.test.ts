import { test } from 'node:test'
import assert from 'node:assert/strict'
import { parseAnswer } from './whole.ts'

const plain = (content: string) => ({ content, reasoning: '', toolCalls: [] })

test('text without tags is content, unchanged', () => {
  for (const text of ['', ' Hello\n', '{"name": "f", "arguments": {}}', 'a < b > c <tool>'])
    assert.deepEqual(parseAnswer(text), plain(text))
})

test("a call's arguments keep their white space, escapes and number format", () => {
  const text =
    'Let me look.\n<tool_call>\n{"name": "weather", "arguments": { "city":"Zürich",  "days": 1.0, "x": "\\u00e9 } ] \\" ,"}}\n</tool_call>'
  assert.deepEqual(parseAnswer(text), {
    content: 'Let me look.',
    reasoning: '',
    toolCalls: [{ name: 'weather', arguments: '{ "city":"Zürich",  "days": 1.0, "x": "\\u00e9 } ] \\" ,"}' }],
  })
})

test('several blocks and lists of calls are read; arguments may be first, a string, named `parameters` or absent', () => {
  const calls = (text: string) => parseAnswer(text).toolCalls
  assert.deepEqual(
    calls('<tool_call>{"arguments":{"a":[1,{"b":2}]},"name":"f"}</tool_call>\n<tool_call>{"name":"g"}</tool_call>'),
    [
      { name: 'f', arguments: '{"a":[1,{"b":2}]}' },
      { name: 'g', arguments: '{}' },
    ],
  )
  assert.deepEqual(calls('<tool_call>[{"name":"f","arguments":{"a":1}}, {"name":"g","parameters":{}}]</tool_call>'), [
    { name: 'f', arguments: '{"a":1}' },
    { name: 'g', arguments: '{}' },
  ])
  assert.deepEqual(calls('<tool_call>{"name":"f","arguments":"{\\"a\\": 1}"}</tool_call>'), [
    { name: 'f', arguments: '{"a": 1}' },
  ])
})

test('a call at the end needs no closing tag', () => {
  assert.deepEqual(parseAnswer('<tool_call>\n{"name": "f", "arguments": {}}\n'), {
    content: '',
    reasoning: '',
    toolCalls: [{ name: 'f', arguments: '{}' }],
  })
})

test('a block that does not parse is content; a valid block beside it is a call', () => {
  const broken = '<tool_call>{"name": "f", "arguments": {</tool_call>'
  assert.deepEqual(parseAnswer(broken), plain(broken))
  const other = '<tool_call>{"city": "Bern"}</tool_call>'
  assert.deepEqual(parseAnswer(other), plain(other))
  assert.deepEqual(parseAnswer('<tool_call>[]</tool_call>').toolCalls, [])
  assert.deepEqual(parseAnswer(`${broken}\n<tool_call>{"name":"g","arguments":{}}</tool_call>`).toolCalls, [
    { name: 'g', arguments: '{}' },
  ])
})

test('reasoning is read when closed, when unclosed, and when the prompt opened it', () => {
  assert.deepEqual(parseAnswer('<think>\nhm\n</think>\n\nYes.'), { content: 'Yes.', reasoning: 'hm', toolCalls: [] })
  assert.deepEqual(parseAnswer('<think>never ends <tool_call>{"name":"f"}</tool_call>'), {
    content: '',
    reasoning: 'never ends <tool_call>{"name":"f"}</tool_call>',
    toolCalls: [],
  })
  assert.deepEqual(parseAnswer('hm\n</think>\nYes.'), { content: 'Yes.', reasoning: 'hm', toolCalls: [] })
  assert.deepEqual(parseAnswer('<think></think><tool_call>{"name":"f","arguments":{}}</tool_call>'), {
    content: '',
    reasoning: '',
    toolCalls: [{ name: 'f', arguments: '{}' }],
  })
  assert.deepEqual(parseAnswer('I said <think> once.'), plain('I said <think> once.'))
})

test('long and nested texts are parsed in linear time', () => {
  const start = performance.now()
  parseAnswer('<tool_call>'.repeat(20000))
  parseAnswer(`<tool_call>${'['.repeat(50000)}${']'.repeat(50000)}</tool_call>`)
  parseAnswer(`<tool_call>{"name":"f","arguments":{"a":"${'\\\\'.repeat(200000)}"}}</tool_call>`)
  parseAnswer(' '.repeat(200000))
  assert.ok(performance.now() - start < 2000)
})
