import assert from 'node:assert/strict'
import test from 'node:test'
import { LruMap } from './lru-map.ts'

test('entries are ordered by their last set', () => {
  const entries = new LruMap<string, number>()
  assert.equal(entries.oldest(), undefined)
  for (const [i, key] of ['a', 'b', 'c'].entries()) entries.set(key, i)
  entries.set('a', 10)
  entries.set('a', 11)
  assert.deepEqual([...entries.keys()], ['b', 'c', 'a'])
  assert.equal(entries.get('a'), 11)
  assert.equal(entries.delete('c'), true)
  assert.equal(entries.delete('c'), false)
  assert.deepEqual([...entries.keys()], ['b', 'a'])
  assert.equal(entries.oldest(), 'b')
  entries.delete('b')
  entries.delete('a')
  assert.deepEqual([entries.size, entries.oldest(), entries.has('a')], [0, undefined, false])
})

test('20,000 random operations give the same entries and order as a Map', () => {
  const entries = new LruMap<number, number>()
  const map = new Map<number, number>()
  let state = 1
  const random = (most: number): number => (state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff) % most
  for (let step = 0; step < 20_000; step++) {
    const key = random(50)
    if (random(3) > 0) {
      entries.set(key, step)
      map.delete(key)
      map.set(key, step)
    } else if (random(2) > 0) assert.equal(entries.delete(key), map.delete(key))
    else {
      const oldest = entries.oldest()
      assert.equal(oldest, map.keys().next().value)
      if (oldest !== undefined) {
        entries.delete(oldest)
        map.delete(oldest)
      }
    }
    assert.equal(entries.size, map.size)
    if (step % 100 === 0)
      assert.deepEqual(
        [...entries.keys()].map((one) => [one, entries.get(one)]),
        [...map],
      )
  }
})
