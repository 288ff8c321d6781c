import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endOf } from './reading.ts'

test('a topic whose ends are not all numbers is unreadable, not empty', () => {
  assert.equal(endOf('weights', []), 0)
  assert.equal(endOf('weights', [3, 0, 7]), 7)
  const sparse = [3]
  sparse[2] = 1
  for (const ends of [[3, NaN], [Infinity], sparse])
    assert.throws(() => endOf('weights', ends), { code: 'data_unreadable', message: /weights/ })
})
