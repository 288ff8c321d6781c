import { test } from 'node:test'
import assert from 'node:assert/strict'
import { TokenCache } from './token-cache.ts'

const text = (i: number) => `${i}`.padEnd(36, '.')

test('over the limit of characters, the least recently used texts are removed first', () => {
  const cache = new TokenCache(1000)
  for (let i = 0; i < 10; i++) cache.add(text(i), [i])
  assert.deepEqual(cache.get(text(0)), [0], 'ten entries of 100 characters each, overhead included, fit')
  cache.add(text(10), [10])
  assert.equal(cache.get(text(1)), undefined)
  assert.deepEqual(
    [0, 2, 10].map((i) => cache.get(text(i))),
    [[0], [2], [10]],
  )
  cache.add('x'.repeat(700), [])
  assert.deepEqual(
    [2, 10].map((i) => cache.get(text(i))),
    [[2], [10]],
  )
  assert.deepEqual(
    [3, 8, 9, 0].map((i) => cache.get(text(i))),
    [undefined, undefined, undefined, undefined],
  )
})

test('a text longer than the limit is not cached and removes no other text', () => {
  const cache = new TokenCache(1000)
  cache.add('a', [1])
  cache.add('x'.repeat(1000), [2])
  assert.deepEqual([cache.get('a'), cache.get('x'.repeat(1000))], [[1], undefined])
})

test('lone surrogates, the empty string and control characters are found again', () => {
  const cache = new TokenCache(1000)
  for (const [i, odd] of ['\ud83c', '🎉', '', '\u0000', '\ufeffa'].entries()) {
    cache.add(odd, [i])
    assert.deepEqual(cache.get(odd), [i])
  }
})
