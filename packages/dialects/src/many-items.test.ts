/** Requests of as many items as a body may have are read in time that grows with their number, not with its square. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DIALECTS } from './dialects.ts'
import { mintedIdsIn, mintId } from './minted.ts'
import { parseJson, type Message } from './request.ts'

/** CPU time of reading a body. It takes about a tenth of this, and minutes where an item is compared with all others. */
const LIMIT_MS = 5000
const ITEMS = 30_000

const turnAt = (i: number): string => `s.${i.toString(16).padStart(32, '0').split('').reverse().join('')}`

const messagesOf = (dialect: 'chat' | 'responses', body: object): Message[] => {
  const bytes = Buffer.from(JSON.stringify({ model: 'policy', ...body }))
  const before = process.cpuUsage().user
  const { messages } = DIALECTS[dialect].request(parseJson(bytes))
  const named = mintedIdsIn(messages)
  const ms = (process.cpuUsage().user - before) / 1000
  assert.ok(ms < LIMIT_MS, `${named.length} ids in ${ms} ms`)
  return [...messages]
}
const list = <T>(one: (i: number) => T): T[] => Array.from({ length: ITEMS }, (_, i) => one(i))

test('calls of as many turns, and reasoning of the last of them, are one answer', () => {
  const calls = list((i) => ({
    type: 'function_call',
    id: mintId('fc', 's', turnAt(i)),
    call_id: `c${i}`,
    name: 'f',
    arguments: '{}',
  }))
  const thoughts = list(() => ({ type: 'reasoning', id: mintId('rs', 's', turnAt(ITEMS - 1)), summary: [] }))
  const [answer, ...others] = messagesOf('responses', { input: [...calls, ...thoughts] })
  assert.equal(others.length, 0)
  assert.equal((answer!['tool_calls'] as unknown[]).length, ITEMS)
  assert.equal(mintedIdsIn([answer!]).length, ITEMS)
})

test('texts of one turn are one answer', () => {
  const texts = list(() => ({ type: 'message', role: 'assistant', id: mintId('msg', 's', turnAt(0)), content: 'a' }))
  const messages = messagesOf('responses', { input: texts })
  assert.deepEqual(
    messages.map(({ content }) => content),
    ['a'.repeat(ITEMS)],
  )
})

test('a message of Chat Completions with calls of as many turns names each once', () => {
  const calls = list((i) => ({ id: mintId('call', 's', turnAt(i)), type: 'function', function: { name: 'f' } }))
  const messages = messagesOf('chat', {
    messages: [{ role: 'assistant', content: '', tool_calls: [...calls, calls[0]] }],
  })
  assert.equal(mintedIdsIn(messages).length, ITEMS)
})
