import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addToGeneration, bytesOf, noNames, WINDOW, type HeldNames } from './held-names.ts'

const DAY = 86_400_000

const limits = { ms: 8 * DAY, bytes: 1e9 }
/** As many turns as make the day the log's time, with a name each. The generations that expire. */
const pass = (held: HeldNames, day: number): number[] =>
  Array.from({ length: WINDOW }, () => addToGeneration(held, limits, day * DAY, 1, 1).expired)
    .flat()
    .map(({ number }) => number)

test('generations are an eighth of the days and of the bytes, and whole ones expire', () => {
  const held = noNames()
  for (let day = 0; day <= 8; day += 1) assert.deepEqual(pass(held, day), [])
  // A generation ends once it began more than a day ago, by the last turn of the next day but one.
  assert.deepEqual(
    held.generations.map(({ from, to, names }) => [from / DAY, to / DAY, names]),
    [
      [0, 2, 767],
      [2, 4, 512],
      [4, 6, 512],
      [6, 8, 512],
      [8, 8, 1],
    ],
  )
  assert.deepEqual(pass(held, 10), [])
  assert.deepEqual(pass(held, 10 + 1 / DAY), [1])
  // A clock that is set back.
  assert.equal(addToGeneration(held, limits, 0, 2, 100).generation, 6)
})

test('turns whose times are ahead let nothing expire, and only their own generation stays for them', () => {
  const held = noNames()
  pass(held, 0)
  for (let i = 1; i < WINDOW; i += 1)
    assert.deepEqual(addToGeneration(held, limits, 365 * DAY, 1, 1), { generation: 1, expired: [] })
  for (let day = 1; day <= 10; day += 1) assert.deepEqual(pass(held, day), [])
  assert.deepEqual(pass(held, 12.1), [2])
  assert.deepEqual(
    held.generations.map(({ number }) => number),
    [1, 3, 4, 5, 6, 7],
  )
  pass(held, 380)
  assert.deepEqual(
    held.generations.map(({ number }) => number),
    [7, 8],
  )
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
