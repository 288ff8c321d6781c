/** Pending turns are a function of the topics, in whatever order these are read beside each other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent, topicOf, type Event, type Logged } from '@instar/events'
import { randomHistory } from '../../../../test/kit/histories.ts'
import { seeded } from '../../../../test/kit/random.ts'
import { evolve, initialState } from './state.ts'

const ORDERS = [
  ['turns', 'scores', 'updates', 'weights'],
  ['scores', 'turns', 'updates', 'weights'],
  ['scores', 'updates', 'turns', 'weights'],
  ['updates', 'scores', 'turns', 'weights'],
  ['updates', 'turns', 'scores', 'weights'],
]

const queuesAfter = (records: readonly Logged<Event>[]): Map<string, Set<string>> => {
  const state = initialState('policy')
  for (const record of records) evolve(state, record)
  return new Map([...state.pending].map(([name, queue]) => [name, new Set(queue)]))
}

test('the pending turns of 40 histories are the same in any order of the topics', () => {
  let pending = 0
  for (let seed = 1; seed <= 40; seed += 1) {
    const records = randomHistory(seeded(seed), 300).events.map((event, offset): Logged<Event> => {
      const { id, key } = encodeEvent(event)
      return { topic: topicOf(event), partition: 0, offset, key, timestamp: 0, id, event }
    })
    const expected = queuesAfter(records)
    pending += expected.size
    for (const order of ORDERS)
      assert.deepEqual(
        queuesAfter(order.flatMap((topic) => records.filter((record) => record.topic === topic))),
        expected,
        `seed ${seed}, ${order.join(', ')}`,
      )
  }
  assert.ok(pending > 40, String(pending))
})
