import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fieldIn } from './json-field.ts'

const found = (json: string, name = 'messages'): string | null => {
  const value = fieldIn(Buffer.from(json), name)
  return value && Buffer.from(value).toString()
}

test('a field is found wherever it stands, whatever its texts hold', () => {
  const messages = [{ role: 'user', content: 'a "quoted" \\ back\\\\slash, ]} [{ "messages": [1] é 🦋\n' }, { content: [{ text: '"' }, {}, [], null, -1.5e3] }]
  for (const blanks of [undefined, 1, '\t'] as const) {
    for (const body of [{ messages }, { model: 'x', messages, stream: true }, { a: { messages: [2] }, b: 'messages', messages, c: [1, [2]] }, { x: -1, y: false, messages }]) {
      const text = found(JSON.stringify(body, null, blanks))
      assert.deepEqual(JSON.parse(text!), messages)
    }
  }
})

test('of several the last, as JSON.parse has it; none in what has none', () => {
  assert.equal(found('{"messages":[1],"a":1,"messages": [2] }'), '[2] '.trim())
  for (const none of ['{}', ' { } ', '{"a":{"messages":[]}}', '{"message":1,"messagess":2}']) assert.equal(found(none), null)
  assert.equal(found('{"a":"x","b":1.5,"c":null}', 'b'), '1.5')
  assert.equal(found('{"a":"x"}', 'a'), '"x"')
  assert.equal(found('{"messages":[1],"\\u006dessages":[2]}'), null, 'JSON.parse has the second')
})
