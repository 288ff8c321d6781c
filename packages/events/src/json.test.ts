import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJsonObject } from './json.ts'

test('a JSON object is parsed; of other texts only those that begin as one are tried', () => {
  const { parse } = JSON
  let tried = 0
  JSON.parse = (...args) => {
    tried += 1
    return parse(...args) as unknown
  }
  try {
    assert.deepEqual(parseJsonObject('{"a": [1]}'), { a: [1] })
    assert.deepEqual(parseJsonObject(' \t\r\n{}'), {})
    for (const text of ['{', '{"a": 1}}', '{a: 1}']) assert.equal(parseJsonObject(text), null, text)
    assert.equal(tried, 5)
    for (const text of ['', ' ', 'user_1', '[{}]', '"{}"', 'null', '1', '\ufeff{}', '\u00a0{}'])
      assert.equal(parseJsonObject(text), null, text)
    assert.equal(tried, 5)
  } finally {
    JSON.parse = parse
  }
})
