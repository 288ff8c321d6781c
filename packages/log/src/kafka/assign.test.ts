import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assign, type Member } from './assign.ts'

const member = (id: string, held: readonly number[] = [], generation = 0): Member => ({ id, held, generation })
const assignments = (members: readonly Member[], partitions: number): Record<string, number[]> =>
  Object.fromEntries(assign(members, partitions))

test('one member has all partitions, two have half each, and members beyond the partitions have none', () => {
  assert.deepEqual(assignments([member('a')], 4), { a: [0, 1, 2, 3] })
  assert.deepEqual(assignments([member('b'), member('a')], 4), { a: [0, 1], b: [2, 3] })
  assert.deepEqual(assignments([member('a'), member('b'), member('c')], 2), { a: [0], b: [1], c: [] })
})

test('if a member joins, only the partitions that it gets move', () => {
  assert.deepEqual(assignments([member('a', [0, 1, 2, 3], 1), member('b', [4, 5, 6, 7], 1), member('c')], 8), {
    a: [0, 1, 2],
    b: [4, 5, 6],
    c: [3, 7],
  })
})

test('if a member leaves, only its partitions move', () => {
  assert.deepEqual(assignments([member('a', [0, 1, 2], 2), member('c', [3, 7], 2)], 8), {
    a: [0, 1, 2, 4],
    c: [3, 5, 6, 7],
  })
})

test('of two members with the same partitions the one of the later generation is preferred', () => {
  assert.deepEqual(assignments([member('a', [0, 1, 2, 3], 4), member('b', [0, 1, 2, 3], 5)], 4), {
    a: [2, 3],
    b: [0, 1],
  })
})

test('a partition moves to the member that lacks the fewest of its records', () => {
  const all = (offset: number): Record<number, number> =>
    Object.fromEntries(Array.from({ length: 8 }, (_, partition) => [partition, offset]))
  const a = { ...member('a', [0, 1, 2, 3], 3), known: all(100) }
  const b = { ...member('b', [4, 5, 6, 7], 3), known: all(100) }
  const c = { ...member('c'), known: { ...all(10), 1: 98, 5: 99, 6: 97 } }
  assert.deepEqual(assignments([a, b, c], 8), { a: [0, 2, 3], b: [4, 6, 7], c: [1, 5] }, 'who restarts gets its own')
  const left = [
    { ...member('a', [0, 1, 2], 4), known: { ...all(100), 5: 0, 7: 0 } },
    { ...member('c', [3, 4], 4), known: { ...all(100), 6: 0 } },
  ]
  assert.deepEqual(assignments(left, 8), { a: [0, 1, 2, 6], c: [3, 4, 5, 7] })
})

test('three members restart one after the other: each gets back what it had, and the others keep theirs', () => {
  let offset = 1000
  const members = new Map(['a', 'b', 'c'].map((id) => [id, { held: [] as number[], generation: 0, known: {} }]))
  const agree = (ids: readonly string[], generation: number): void => {
    const of = ids.map((id) => ({ id, ...members.get(id)! }))
    for (const [id, held] of assign(of, 64)) {
      // What a member holds it reads to the end.
      const known = { ...members.get(id)!.known, ...Object.fromEntries(held.map((partition) => [partition, offset])) }
      members.set(id, { held, generation, known })
    }
    offset += 100
  }
  agree(['a', 'b', 'c'], 1)
  const before = new Map([...members].map(([id, { held }]) => [id, held]))
  for (const [i, id] of ['a', 'b', 'c'].entries()) {
    agree(
      ['a', 'b', 'c'].filter((other) => other !== id),
      2 * i + 2,
    )
    members.set(id, { held: [], generation: 0, known: members.get(id)!.known })
    agree(['a', 'b', 'c'], 2 * i + 3)
  }
  const moved = [...members].flatMap(([id, { held }]) => held.filter((one) => !before.get(id)!.includes(one)))
  assert.ok(moved.length <= 2, `${moved.length} partitions have another owner`)
})

test('partitions that do not exist, and repeated ones, are ignored', () => {
  assert.deepEqual(assignments([member('a', [0, 9, -1, 0.5], 1), member('b', [1, 1], 1)], 2), { a: [0], b: [1] })
})

test('after 100 random changes each partition has one owner, shares differ by at most one, and moves are minimal', () => {
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
          `${id} had ${before.join()} and has ${share.join()}`,
        )
    }
    held = next
  }
})
