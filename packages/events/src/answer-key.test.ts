import assert from 'node:assert/strict'
import { it } from 'node:test'
import { answerKey, canonicalJson } from './answer-key.ts'

it('re-serialised tool arguments have the same key, another value does not', () => {
  const sampled = answerKey('', [{ name: 'read', arguments: '{ "path": "a\\u00e9",  "n": 1 }' }])
  assert.deepEqual(answerKey('', [{ name: 'read', arguments: '{"n":1,"path":"aé"}' }]), sampled)
  assert.notEqual(answerKey('', [{ name: 'read', arguments: '{"n":2,"path":"aé"}' }]).strict, sampled.strict)
})

it('outer blanks are in the strict key alone; CRLF inside is kept', () => {
  assert.equal(answerKey(' hi\n', []).loose, answerKey('hi', []).loose)
  assert.notEqual(answerKey(' hi\n', []).strict, answerKey('hi', []).strict)
  assert.notEqual(answerKey('a\r\nb', []).loose, answerKey('a\nb', []).loose)
})

it('canonical JSON sorts keys at every depth', () => {
  assert.equal(canonicalJson({ b: [{ d: 1, c: null }], a: 'x' }), '{"a":"x","b":[{"c":null,"d":1}]}')
})
