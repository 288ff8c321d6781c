import assert from 'node:assert/strict'
import { test } from 'node:test'
import { earliest, initialIdle, park, pop, rebuild, unpark, unwatch, watch, watchAgain } from './idle.ts'

test('the session that was heard longest ago comes first, whatever the order in which they came', () => {
  const idle = initialIdle()
  const times = Array.from({ length: 300 }, (_, i) => (i * 7919) % 1009)
  for (const [i, at] of times.entries()) watch(idle, `s${i}`, at)
  watch(idle, 's0', 5000)
  assert.equal(idle.heap.length, 300, 'one that is watched is not pushed again')
  const heard: number[] = []
  for (let at = earliest(idle); at !== undefined; at = earliest(idle)) {
    heard.push(at)
    const session = pop(idle)
    assert.equal(idle.watched.get(session ?? ''), at)
  }
  assert.deepEqual(
    heard,
    times.toSorted((a, b) => a - b),
  )
})

test('what is parked comes back, what is no longer watched is forgotten with the next building', () => {
  const idle = initialIdle()
  for (const [session, at] of [
    ['a', 3],
    ['b', 1],
    ['c', 2],
  ] as const)
    watch(idle, session, at)
  assert.equal(pop(idle), 'b')
  park(idle, 'b')
  unwatch(idle, 'c')
  watchAgain(idle, 'a', 9)
  unpark(idle)
  assert.equal(pop(idle), 'b')
  rebuild(idle)
  assert.deepEqual(idle.heap, [
    { session: 'b', at: 1 },
    { session: 'a', at: 9 },
  ])
})

test('sessions that come and go leave no more behind than those that stay', () => {
  const idle = initialIdle()
  for (let i = 0; i < 50_000; i += 1) {
    watch(idle, `s${i}`, i)
    if (i >= 10) unwatch(idle, `s${i - 10}`)
  }
  assert.ok(idle.heap.length < 1100, `${idle.heap.length}`)
  assert.deepEqual(
    [...idle.watched].map(([session]) => session),
    Array.from({ length: 10 }, (_, i) => `s${49_990 + i}`),
  )
})
