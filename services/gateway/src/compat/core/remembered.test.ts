import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Remembered } from './remembered.ts'

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
