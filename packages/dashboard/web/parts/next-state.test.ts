import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Beginnings, nextState } from './next-state.ts'

test('what followed a turn is said in words', () => {
  const next_turn_id = 's.00000000000000000000000012345678'
  const of = (next_state: 'open' | 'turn' | 'none', role?: string): string =>
    nextState({ next_state, next_turn_id: next_state === 'turn' ? next_turn_id : null }, role)
  assert.deepEqual(
    [of('open'), of('none'), of('turn', 'user'), of('turn', 'tool'), of('turn', 'developer'), of('turn')],
    [
      'none yet',
      'none: the session ended',
      'the user’s message below',
      'the tool’s result below',
      'the message of role developer below',
      'the request of turn 12345678',
    ],
  )
})

test('a turn is told who speaks next, whether its successor was read before or after it', () => {
  const beginnings = new Beginnings()
  beginnings.tell('b', 'tool')
  assert.equal(beginnings.of('b'), 'tool')
  let told = 0
  const end = beginnings.watch('c', () => (told += 1))
  beginnings.tell('c', 'user')
  assert.deepEqual([told, beginnings.of('c')], [1, 'user'])
  end()
  beginnings.tell('c', 'user')
  assert.equal(told, 1)
})
