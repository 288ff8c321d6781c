import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LruCache } from './lru-cache.ts'

test('the values that were used last stay, within their number and their bytes', () => {
  const recent = new LruCache<string>(3, 10, ({ length }) => length)
  for (const [key, value] of [
    ['a', 'aa'],
    ['b', 'bb'],
    ['c', 'cc'],
  ] as const)
    recent.set(key, value)
  assert.equal(recent.get('a'), 'aa')
  recent.set('d', 'dd')
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((key) => recent.get(key)),
    ['aa', undefined, 'cc', 'dd'],
  )
  recent.set('e', 'eeeeeee')
  assert.deepEqual(
    ['a', 'c', 'd', 'e'].map((key) => recent.get(key)),
    [undefined, undefined, 'dd', 'eeeeeee'],
    '2 + 7 bytes are within 10, 2 + 2 + 7 are not',
  )
  recent.set('e', 'e')
  recent.set('f', 'ff')
  assert.deepEqual(
    ['d', 'e', 'f'].map((key) => recent.get(key)),
    ['dd', 'e', 'ff'],
    'a value that is replaced weighs no more',
  )
  recent.set('d', 'd'.repeat(11))
  assert.equal(recent.get('d'), undefined, 'too large, and what it replaces is out of date')
})
