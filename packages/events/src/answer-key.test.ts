import assert from 'node:assert/strict'
import { it } from 'node:test'
import { answerKey, canonicalJson } from './answer-key.ts'

it('the key does not depend on the serialisation of tool arguments, but on their values', () => {
  const sampled = answerKey('', [{ name: 'read', arguments: '{ "path": "a\\u00e9",  "n": 1 }' }])
  assert.deepEqual(answerKey('', [{ name: 'read', arguments: '{"n":1,"path":"aé"}' }]), sampled)
  assert.notEqual(answerKey('', [{ name: 'read', arguments: '{"n":2,"path":"aé"}' }]).strict, sampled.strict)
})

it('leading and trailing white space is part of the strict key only; CRLF within the text is preserved', () => {
  assert.equal(answerKey(' hi\n', []).loose, answerKey('hi', []).loose)
  assert.notEqual(answerKey(' hi\n', []).strict, answerKey('hi', []).strict)
  assert.notEqual(answerKey('a\r\nb', []).loose, answerKey('a\nb', []).loose)
})

it('canonical JSON has sorted keys at every depth', () => {
  assert.equal(canonicalJson({ b: [{ d: 1, c: null }], a: 'x' }), '{"a":"x","b":[{"c":null,"d":1}]}')
})
