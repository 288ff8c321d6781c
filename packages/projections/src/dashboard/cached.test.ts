import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cached } from './cached.ts'

test('a value is computed once at a time, and the last one serves while the next is computed', async () => {
  let now = 0
  let count = 0
  let gate = Promise.withResolvers<void>()
  const cached = new Cached(
    async () => {
      count += 1
      await gate.promise
      return count
    },
    10,
    () => now,
  )
  const first = [cached.get(), cached.get()]
  gate.resolve()
  assert.deepEqual(await Promise.all(first), [1, 1])
  now = 9
  assert.equal(await cached.get(), 1)
  gate = Promise.withResolvers()
  now = 11
  assert.equal(await cached.get(), 1, 'the last value, while the next is computed')
  assert.equal(await cached.get(), 1)
  gate.resolve()
  await gate.promise
  await new Promise(setImmediate)
  assert.equal(await cached.get(), 2)
  now = 200
  assert.equal(await cached.get(), 3, 'a value older than ten times its age is not served')
})

test('an error is not kept, and the last value serves meanwhile', async () => {
  let now = 0
  let fails = true
  const cached = new Cached(
    () => (fails ? Promise.reject(new Error('away')) : Promise.resolve('here')),
    10,
    () => now,
  )
  await assert.rejects(cached.get(), /away/)
  fails = false
  assert.equal(await cached.get(), 'here')
  fails = true
  now = 20
  assert.equal(await cached.get(), 'here')
})

test('without stale values a caller waits for the next one', async () => {
  let [now, count] = [0, 0]
  const cached = new Cached(
    () => Promise.resolve((count += 1)),
    10,
    () => now,
    false,
  )
  assert.equal(await cached.get(), 1)
  now = 9
  assert.equal(await cached.get(), 1)
  now = 10
  assert.deepEqual(await Promise.all([cached.get(), cached.get()]), [2, 2])
})

test('a value that a caller refuses is computed again, also when an older computation is under way', async () => {
  let count = 0
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const cached = new Cached(
    async () => {
      const number = (count += 1)
      await gates[number - 1]!.promise
      return number
    },
    10,
    () => 0,
  )
  const first = cached.get()
  const refused = cached.get((value) => value >= 2)
  gates[0]!.resolve()
  assert.equal(await first, 1)
  gates[1]!.resolve()
  assert.equal(await refused, 2)
  assert.equal(await cached.get(), 2)
  gates[2]!.resolve()
  assert.equal(await cached.get((value) => value >= 4), 3, 'computed once, not until it is accepted')
})

test('a value that takes long to compute is used for twenty times as long', async () => {
  let now = 0
  let count = 0
  const cached = new Cached(
    async () => {
      now += 3
      return (count += 1)
    },
    10,
    () => now,
  )
  assert.equal(await cached.get(), 1)
  now = 3 + 59
  assert.equal(await cached.get(), 1)
  now = 3 + 60
  await cached.get()
  assert.equal(count, 2)
})
