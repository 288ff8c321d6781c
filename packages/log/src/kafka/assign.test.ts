import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assign, type Member } from './assign.ts'

const member = (id: string, held: readonly number[] = [], generation = 0): Member => ({ id, held, generation })
const assignments = (members: readonly Member[], partitions: number): Record<string, number[]> =>
  Object.fromEntries(assign(members, partitions))

test('everything goes to one, half to each of two, and nothing to those who are too many', () => {
  assert.deepEqual(assignments([member('a')], 4), { a: [0, 1, 2, 3] })
  assert.deepEqual(assignments([member('b'), member('a')], 4), { a: [0, 1], b: [2, 3] })
  assert.deepEqual(assignments([member('a'), member('b'), member('c')], 2), { a: [0], b: [1], c: [] })
})

test('one that joins is given what makes it even, and nothing else moves', () => {
  assert.deepEqual(assignments([member('a', [0, 1, 2, 3], 1), member('b', [4, 5, 6, 7], 1), member('c')], 8), {
    a: [0, 1, 2],
    b: [4, 5, 6],
    c: [3, 7],
  })
})

test('what one leaves is shared out, and nothing else moves', () => {
  assert.deepEqual(assignments([member('a', [0, 1, 2], 2), member('c', [3, 7], 2)], 8), {
    a: [0, 1, 2, 4],
    c: [3, 5, 6, 7],
  })
})

test('one that was away gives way to whom its partitions were given meanwhile', () => {
  assert.deepEqual(assignments([member('away', [0, 1, 2, 3], 4), member('b', [0, 1, 2, 3], 5)], 4), {
    away: [2, 3],
    b: [0, 1],
  })
})

test('claims to partitions that do not exist, or twice, change nothing', () => {
  assert.deepEqual(assignments([member('a', [0, 9, -1, 0.5], 1), member('b', [1, 1], 1)], 2), { a: [0], b: [1] })
})

test('in a hundred changes at random every partition has one owner, shares differ by one, and no more moves than must', () => {
  let seed = 7
  const below = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n
  let held = new Map<string, number[]>()
  for (let generation = 1; generation <= 100; generation++) {
    const staying = [...held.keys()].filter(() => below(4) > 0)
    const ids = [...staying, ...Array.from({ length: below(3) }, (_, i) => `m${generation}.${i}`)]
    if (ids.length === 0) continue
    const partitions = 8
    const next = assign(
      ids.map((id) => member(id, held.get(id), held.has(id) ? generation : 0)),
      partitions,
    )
    assert.deepEqual(
      [...next.values()].flat().toSorted((a, b) => a - b),
      Array.from({ length: partitions }, (_, i) => i),
    )
    const sizes = [...next.values()].map(({ length }) => length)
    assert.ok(Math.max(...sizes) - Math.min(...sizes) <= 1, sizes.join())
    for (const [id, share] of next) {
      const before = held.get(id)
      if (before && before.length >= share.length)
        assert.ok(
          share.every((partition) => before.includes(partition)),
          `${id} had ${before.join()} and is given ${share.join()}`,
        )
    }
    held = next
  }
})
