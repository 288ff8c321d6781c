import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { createLabels } from './labels.ts'

const from = (turn: string, status = 200) => ({ status, headers: { 'x-instar-turn-id': turn } })

test('a session is named; a run that no user asked for is side, until one does', () => {
  const labels = createLabels()
  deepEqual(labels.headers('a'), { 'x-session-id': 'a' })
  for (const trigger of ['heartbeat', 'memory', 'cron', 'overflow', 'manual']) {
    labels.began('a', trigger)
    deepEqual(labels.headers('a'), { 'x-session-id': 'a', 'x-instar-turn-kind': 'side' }, trigger)
    deepEqual(labels.headers('b'), { 'x-session-id': 'b' })
    labels.began('a', 'user')
    deepEqual(labels.headers('a'), { 'x-session-id': 'a' })
  }
  labels.began('a', 'of a later release')
  deepEqual(labels.headers('a'), { 'x-session-id': 'a' }, 'what is not known is left to the gateway')
  labels.began('a', 'heartbeat')
  labels.began('a', undefined)
  equal(labels.headers('a')['x-instar-turn-kind'], 'side')
})

test('without a session there is no label but the kind; names that no header holds are left out', () => {
  const labels = createLabels()
  labels.began(undefined, 'heartbeat')
  deepEqual(labels.headers(undefined), {})
  deepEqual(labels.headers(undefined, 'side'), { 'x-instar-turn-kind': 'side' })
  deepEqual(labels.headers('Zürich'), {})
  deepEqual(labels.headers('a\nb'), {})
})

test('the last turn is one that answered the user', () => {
  const labels = createLabels()
  equal(labels.lastTurn('a'), null)
  labels.answered('a', from('t1'))
  labels.answered('b', from('t2'))
  labels.answered('a', from('t3', 429))
  labels.answered('a', from('t4'), 'side')
  labels.answered('a', { status: 200, headers: {} })
  labels.answered(undefined, from('t5'))
  labels.began('a', 'heartbeat')
  labels.answered('a', from('t6'))
  deepEqual([labels.lastTurn('a'), labels.lastTurn('b')], ['t1', 't2'])
  labels.began('a', 'user')
  labels.answered('a', from('t7'))
  equal(labels.lastTurn('a'), 't7')
})

test('a thousand sessions are remembered, the one not heard of for the longest goes first', () => {
  const labels = createLabels()
  for (let i = 0; i < 1000; i += 1) labels.answered(`s${i}`, from(`t${i}`))
  labels.answered('s0', from('again'))
  labels.answered('one more', from('t'))
  deepEqual([labels.lastTurn('s0'), labels.lastTurn('s1'), labels.lastTurn('s2')], ['again', null, 't2'])
})
