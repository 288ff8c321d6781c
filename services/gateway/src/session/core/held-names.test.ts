import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addToGeneration, bytesOf, namesIn, noNames } from './held-names.ts'

const DAY = 86_400_000

test('generations are an eighth of the days and of the bytes, and whole ones expire', () => {
  const held = noNames()
  const limits = { ms: 8 * DAY, bytes: 1e9 }
  for (let day = 0; day <= 8; day += 1) assert.deepEqual(addToGeneration(held, limits, day * DAY, 2, 100).expired, [])
  // A generation ends once its first name is more than a day old.
  assert.deepEqual(
    held.generations.map(({ from, to, names }) => [from / DAY, to / DAY, names]),
    [
      [0, 1, 4],
      [2, 3, 4],
      [4, 5, 4],
      [6, 7, 4],
      [8, 8, 2],
    ],
  )
  assert.deepEqual(addToGeneration(held, limits, 9 * DAY, 2, 100).expired, [])
  const { expired, generation } = addToGeneration(held, limits, 9 * DAY + 1, 2, 100)
  assert.deepEqual([expired.map(({ number }) => number), generation], [[1], 6])
  // A clock that is set back.
  assert.equal(addToGeneration(held, limits, 0, 2, 100).generation, 6)
  assert.deepEqual([namesIn(held), held.added, held.now], [20, 24, 9 * DAY + 1])
})

test('the bytes stay at the limit, whatever comes, and an eighth at most is given up for it', () => {
  const held = noNames()
  const limits = { ms: DAY, bytes: 8_000 }
  let expired = 0
  for (let i = 0; i < 1_000; i += 1) {
    expired += addToGeneration(held, limits, i, 1, 100).expired.length
    assert.ok(bytesOf(held) <= limits.bytes)
    if (i >= 80) assert.ok(bytesOf(held) > (limits.bytes * 7) / 8 - 100, `${i}: ${bytesOf(held)}`)
  }
  assert.equal(expired, 92)
})
