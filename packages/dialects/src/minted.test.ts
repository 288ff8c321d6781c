import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  MOST_IN_TEXT,
  mintCallId,
  mintedIdsIn,
  mintedIdsInText,
  parseMintedId,
  sessionIdPart,
  turnIdPart,
} from './minted.ts'

const TURN = 'desk-1.00112233445566778899aabbccddeeff'

test('an id is alphanumeric and contains 60 bits of its session and 60 of its turn', () => {
  const id = mintCallId('desk-1', TURN, 0)
  assert.match(id, /^call[a-z2-7]{24}0$/)
  assert.deepEqual(parseMintedId(id), {
    prefix: 'call',
    session: sessionIdPart('desk-1'),
    turn: turnIdPart(TURN),
    index: 0,
  })
  assert.notEqual(id, mintCallId('desk-1', TURN, 1))
  assert.notEqual(sessionIdPart('desk-1'), sessionIdPart('desk-2'))
  assert.ok(mintCallId('desk-1', TURN, 99).length <= 40)
})

test('characters that agents insert into an id are ignored', () => {
  const id = mintCallId('desk-1', TURN, 3)
  assert.deepEqual(parseMintedId(`${id.slice(0, 4)}_${id.slice(4, 9)}-${id.slice(9)}`), parseMintedId(id))
})

test('ids of other servers are not parsed', () => {
  for (const id of ['call_abc', 'toolu_0123456789', '', 7, null, `call${'A'.repeat(25)}`, 'x'.repeat(500)])
    assert.equal(parseMintedId(id), null)
})

test('the ids of the last message are first', () => {
  const [a, b] = [mintCallId('a', TURN, 0), mintCallId('b', TURN, 0)]
  const ids = mintedIdsIn([
    { role: 'assistant', content: null, tool_calls: [{ id: a }] },
    { role: 'tool', content: '', tool_call_id: a },
    { role: 'assistant', content: null, tool_calls: [{ id: b }, null] },
  ])
  assert.deepEqual(
    ids.map(({ session }) => session),
    [sessionIdPart('b'), sessionIdPart('a')],
  )
})

test('of a text with many ids the last ones are looked up', () => {
  const ids = Array.from({ length: MOST_IN_TEXT + 10 }, (_, i) => mintCallId(`desk-${i}`, TURN, 0))
  assert.deepEqual(
    mintedIdsInText(ids.join(' ')).map(({ session }) => session),
    ids.map((_, i) => sessionIdPart(`desk-${i}`)).slice(-MOST_IN_TEXT),
  )
})
