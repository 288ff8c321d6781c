import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { createLabels } from './labels.ts'

const from = (turn: string, status = 200) => ({ status, headers: { 'x-instar-turn-id': turn } })

test('requests have the session; those of a run without a user message are side requests', () => {
  const labels = createLabels()
  deepEqual(labels.headers('a'), { 'x-session-id': 'a' })
  for (const trigger of ['heartbeat', 'memory', 'cron', 'overflow', 'manual']) {
    labels.runStarted('a', trigger)
    deepEqual(labels.headers('a'), { 'x-session-id': 'a', 'x-instar-turn-kind': 'side' }, trigger)
    deepEqual(labels.headers('b'), { 'x-session-id': 'b' })
    labels.runStarted('a', 'user')
    deepEqual(labels.headers('a'), { 'x-session-id': 'a' })
  }
  labels.runStarted('a', 'unknown trigger')
  deepEqual(labels.headers('a'), { 'x-session-id': 'a' }, 'the gateway classifies the request')
  labels.runStarted('a', 'heartbeat')
  labels.runStarted('a', undefined)
  equal(labels.headers('a')['x-instar-turn-kind'], 'side')
})

test('without a session only the kind is sent; a session id that is not valid in a header is left out', () => {
  const labels = createLabels()
  labels.runStarted(undefined, 'heartbeat')
  deepEqual(labels.headers(undefined), {})
  deepEqual(labels.headers(undefined, 'side'), { 'x-instar-turn-kind': 'side' })
  deepEqual(labels.headers('Zürich'), {})
  deepEqual(labels.headers('a\nb'), {})
})

test('the last turn is the last successful answer to the user', () => {
  const labels = createLabels()
  equal(labels.lastTurn('a'), null)
  labels.responded('a', from('t1'))
  labels.responded('b', from('t2'))
  labels.responded('a', from('t3', 429))
  labels.responded('a', from('t4'), 'side')
  labels.responded('a', { status: 200, headers: {} })
  labels.responded(undefined, from('t5'))
  labels.runStarted('a', 'heartbeat')
  labels.responded('a', from('t6'))
  deepEqual([labels.lastTurn('a'), labels.lastTurn('b')], ['t1', 't2'])
  labels.runStarted('a', 'user')
  labels.responded('a', from('t7'))
  equal(labels.lastTurn('a'), 't7')
})

test('1000 sessions are kept; the least recently used one is evicted', () => {
  const labels = createLabels()
  for (let i = 0; i < 1000; i += 1) labels.responded(`s${i}`, from(`t${i}`))
  labels.responded('s0', from('again'))
  labels.responded('one more', from('t'))
  deepEqual([labels.lastTurn('s0'), labels.lastTurn('s1'), labels.lastTurn('s2')], ['again', null, 't2'])
})
