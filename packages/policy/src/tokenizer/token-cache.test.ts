import { test } from 'node:test'
import assert from 'node:assert/strict'
import { TokenCache } from './token-cache.ts'

const text = (i: number) => `${i}`.padEnd(36, '.')

test('the longest unused text goes first, when the characters of all are more than the limit', () => {
  const recent = new TokenCache(1000)
  for (let i = 0; i < 10; i++) recent.put(text(i), [i])
  assert.deepEqual(recent.get(text(0)), [0], 'ten of 100 characters fit, what they cost beside the text included')
  recent.put(text(10), [10])
  assert.equal(recent.get(text(1)), undefined)
  assert.deepEqual(
    [0, 2, 10].map((i) => recent.get(text(i))),
    [[0], [2], [10]],
  )
  recent.put('x'.repeat(700), [])
  assert.deepEqual(
    [2, 10].map((i) => recent.get(text(i))),
    [[2], [10]],
  )
  assert.deepEqual(
    [3, 8, 9, 0].map((i) => recent.get(text(i))),
    [undefined, undefined, undefined, undefined],
  )
})

test('a text longer than the limit is not held and drives nothing out', () => {
  const recent = new TokenCache(1000)
  recent.put('a', [1])
  recent.put('x'.repeat(1000), [2])
  assert.deepEqual([recent.get('a'), recent.get('x'.repeat(1000))], [[1], undefined])
})

test('any text is found again: lone surrogates too', () => {
  const recent = new TokenCache(1000)
  for (const [i, odd] of ['\ud83c', '🎉', '', '\u0000', '\ufeffa'].entries()) {
    recent.put(odd, [i])
    assert.deepEqual(recent.get(odd), [i])
  }
})
