import assert from 'node:assert/strict'
import { test } from 'node:test'
import { idMarks, mintCallId, readId, sessionMark, turnMark } from './minted.ts'

const TURN = 'desk-1.00112233445566778899aabbccddeeff'

test('an id carries 60 bits of its session and 60 of its turn, alphanumeric', () => {
  const id = mintCallId('desk-1', TURN, 0)
  assert.match(id, /^call[a-z2-7]{24}0$/)
  assert.deepEqual(readId(id), { prefix: 'call', session: sessionMark('desk-1'), turn: turnMark(TURN), index: 0 })
  assert.notEqual(id, mintCallId('desk-1', TURN, 1))
  assert.notEqual(sessionMark('desk-1'), sessionMark('desk-2'))
  assert.ok(mintCallId('desk-1', TURN, 99).length <= 40)
})

test('characters that agents put in or take out do not matter', () => {
  const id = mintCallId('desk-1', TURN, 3)
  assert.deepEqual(readId(`${id.slice(0, 4)}_${id.slice(4, 9)}-${id.slice(9)}`), readId(id))
})

test('ids of others are not ours', () => {
  for (const id of ['call_abc', 'toolu_0123456789', '', 7, null, `call${'A'.repeat(25)}`, 'x'.repeat(500)])
    assert.equal(readId(id), null)
})

test('the last message comes first', () => {
  const [a, b] = [mintCallId('a', TURN, 0), mintCallId('b', TURN, 0)]
  const marks = idMarks([
    { role: 'assistant', content: null, tool_calls: [{ id: a }] },
    { role: 'tool', content: '', tool_call_id: a },
    { role: 'assistant', content: null, tool_calls: [{ id: b }, null] },
  ])
  assert.deepEqual(
    marks.map(({ session }) => session),
    [sessionMark('b'), sessionMark('a')],
  )
})
