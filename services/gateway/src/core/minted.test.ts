import assert from 'node:assert/strict'
import { test } from 'node:test'
import { callMarks, mintCallId, readCallId, sessionMark, turnMark } from './minted.ts'

const TURN = 'desk-1.00112233445566778899aabbccddeeff'

test('an id carries 60 bits of its session and 60 of its turn, alphanumeric', () => {
  const id = mintCallId('desk-1', TURN, 0)
  assert.match(id, /^call[a-z2-7]{24}0$/)
  assert.deepEqual(readCallId(id), { session: sessionMark('desk-1'), turn: turnMark(TURN) })
  assert.notEqual(id, mintCallId('desk-1', TURN, 1))
  assert.notEqual(sessionMark('desk-1'), sessionMark('desk-2'))
  assert.ok(mintCallId('desk-1', TURN, 99).length <= 40)
})

test('characters that agents put in or take out do not matter', () => {
  const id = mintCallId('desk-1', TURN, 3)
  assert.deepEqual(readCallId(`${id.slice(0, 4)}_${id.slice(4, 9)}-${id.slice(9)}`), readCallId(id))
})

test('ids of others are not ours', () => {
  for (const id of ['call_abc', 'toolu_0123456789', '', 7, null, `call${'A'.repeat(25)}`, 'x'.repeat(500)]) assert.equal(readCallId(id), null)
})

test('the last message comes first', () => {
  const [a, b] = [mintCallId('a', TURN, 0), mintCallId('b', TURN, 0)]
  const marks = callMarks([{ role: 'assistant', tool_calls: [{ id: a }] }, { role: 'tool', tool_call_id: a }, { role: 'assistant', tool_calls: [{ id: b }, null] }])
  assert.deepEqual(marks.map(({ session }) => session), [sessionMark('b'), sessionMark('a')])
})
