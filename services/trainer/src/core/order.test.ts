/** Pending turns are a function of the topics, in whatever order these are read beside each other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeEvent, topicOf, written, type Event, type Logged } from '@instar/events'
import { randomHistory } from '../../../../test/kit/histories.ts'
import { scored, turn } from '../../../../test/kit/projected-history.ts'
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
  return new Map([...state.pending, ...state.episodes].map(([name, queue]) => [name, new Set(queue)]))
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

test('a turn of an episode with a hint that is too long, then a skip, waits for its outcome in any order', () => {
  const said = { ...turn({ session: 's', name: 'x', says: 'x' }), task: 'task' }
  const hint = written('h'.repeat(5000))
  const { version, judge: _, reward: __, hint: ___, hintJudge: ____, ...score } = scored(said, 1)
  const rank = (at: number) => ({ at, id: String(at) })
  for (const [subject, waiting] of [
    ['someone', 1],
    ['s'.repeat(5000), 0],
  ] as const) {
    const events: Event[] = [
      said,
      scored(said, 1, { subject, hint, hintJudge: 'j', rank: rank(1) }),
      { ...score, version, type: 'TurnSkipped', subject, reason: 'r', rank: rank(2) },
    ]
    const records = events.map((event, offset): Logged<Event> => {
      const { id, key } = encodeEvent(event)
      return { topic: topicOf(event), partition: 0, offset, key, timestamp: 0, id, event }
    })
    for (const order of [
      [0, 1, 2],
      [1, 0, 2],
      [1, 2, 0],
    ]) {
      const queues = queuesAfter(order.map((at) => records[at]!))
      assert.deepEqual(
        [...queues.values()].map(({ size }) => size),
        waiting === 0 ? [] : [1],
        `${subject[0]} ${order.join()}`,
      )
    }
  }
})
