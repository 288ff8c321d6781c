import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Remembered, SharedMemory } from './remembered.ts'

test('beyond its number of entries, or its bytes, the entry that was set longest ago is evicted', () => {
  const map = new Remembered<string>({ most: 3, mostBytes: 100 })
  for (const name of ['a', 'b', 'c']) map.set(name, name, 10)
  map.set('a', 'again', 20)
  assert.deepEqual([map.size, map.bytes], [3, 40])
  map.set('d', 'd', 60)
  assert.deepEqual([map.size, map.bytes, map.get('b'), map.get('a')], [3, 90, undefined, 'again'])
  map.set('e', 'e', 20)
  assert.deepEqual([map.size, map.bytes, map.get('c'), map.get('a')], [3, 100, undefined, 'again'])
  map.set('f', 'f', 1)
  assert.deepEqual([map.size, map.bytes, map.get('a')], [3, 81, undefined])
})

test('an entry that is larger than the limit is kept alone', () => {
  const map = new Remembered<number>({ most: 3, mostBytes: 100 })
  map.set('small', 1, 1)
  map.set('large', 2, 1000)
  assert.deepEqual([map.size, map.bytes, map.get('large')], [1, 1000, 2])
  map.delete('large')
  map.delete('unknown')
  assert.deepEqual([map.size, map.bytes], [0, 0])
})

test('beyond its entries or bytes the key with the largest share loses its oldest entry, and no other key does', () => {
  const map = new SharedMemory<number>({ most: 6, mostBytes: 100 })
  map.set('b', 'b0', 0, 10)
  map.set(null, 'c0', 0, 1)
  for (let i = 0; i < 50; i += 1) map.set('a', `a${i}`, i, 1)
  assert.deepEqual([map.size, map.get('b0'), map.get('c0'), map.get('a45'), map.get('a46')], [6, 0, 0, undefined, 46])
  map.set('a', 'a50', 50, 89)
  assert.deepEqual([map.get('b0'), map.get('a49'), map.get('a50')], [0, undefined, 50])
  map.set('b', 'b1', 1, 5)
  assert.deepEqual([map.size, map.get('a50'), map.get('b0'), map.get('b1')], [3, undefined, 0, 1])
  map.set('b', 'b2', 2, 1000)
  assert.deepEqual([map.size, map.get('b2')], [1, 2], 'one that is larger than the limit is kept alone')
})
