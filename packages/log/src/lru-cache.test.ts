import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LruCache } from './lru-cache.ts'

test('the least recently used values are evicted beyond the number and the bytes', () => {
  const cache = new LruCache<string>(3, 10, ({ length }) => length)
  for (const [key, value] of [
    ['a', 'aa'],
    ['b', 'bb'],
    ['c', 'cc'],
  ] as const)
    cache.set(key, value)
  assert.equal(cache.get('a'), 'aa')
  cache.set('d', 'dd')
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((key) => cache.get(key)),
    ['aa', undefined, 'cc', 'dd'],
  )
  cache.set('e', 'eeeeeee')
  assert.deepEqual(
    ['a', 'c', 'd', 'e'].map((key) => cache.get(key)),
    [undefined, undefined, 'dd', 'eeeeeee'],
    '2 + 7 bytes are within 10, 2 + 2 + 7 are not',
  )
  cache.set('e', 'e')
  cache.set('f', 'ff')
  assert.deepEqual(
    ['d', 'e', 'f'].map((key) => cache.get(key)),
    ['dd', 'e', 'ff'],
    'the size of a replaced value is not counted',
  )
  cache.set('d', 'd'.repeat(11))
  assert.equal(cache.get('d'), undefined, 'a value above the limit is not cached, and the value before it is removed')
})
