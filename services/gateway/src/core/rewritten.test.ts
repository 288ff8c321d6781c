import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DIALECTS, type Message } from '@instar/dialects'
import { Rewritten, type Refused } from './rewritten.ts'

const SYSTEM = 'You are a personal assistant running inside OpenClaw.'
const said = (session: string): string => `Hello.\n\nRuntime: agent=main | session=agent:main:${session} | sessionId=${session} | host=host | os=Linux`
const bodyOf = (session: string, system = SYSTEM): { messages: Message[]; tools: unknown[] } => ({ messages: [{ role: 'system', content: system }, { role: 'user', content: said(session) }], tools: [{}] })
type Rest = Partial<Omit<Refused, 'body'>>
const asked = (body: object, rest: Rest = {}): Refused => ({ dialect: DIALECTS.chat, body: Buffer.from(JSON.stringify(body)), headers: {}, key: null, segment: null, ...rest })
const asking = (body: { messages: Message[] }, { headers = {}, key = null, segment = null }: Rest = {}) => ({ headers, key, segment, body, messages: body.messages })

test('the request that comes after a 429 or 503 is the one; the next is not', () => {
  for (const [status, marked] of [[429, true], [503, true], [400, false], [401, false], [500, false], [499, false]] as const) {
    const rewritten = new Rewritten()
    rewritten.refused(asked(bodyOf('a')), status)
    assert.deepEqual([rewritten.take(asking(bodyOf('b'))), rewritten.take(asking(bodyOf('a'))), rewritten.take(asking(bodyOf('a')))], [false, marked, false], String(status))
  }
})

test('of one session of one key, by its label before its words', () => {
  const rewritten = new Rewritten()
  const headers = { session_id: 'a:0' }
  rewritten.refused(asked(bodyOf('a'), { headers, key: 'k' }), 429)
  assert.equal(rewritten.take(asking(bodyOf('a'), { key: 'k' })), false)
  assert.equal(rewritten.take(asking(bodyOf('a'), { headers })), false)
  assert.equal(rewritten.take(asking(bodyOf('other words'), { headers, key: 'k' })), true)
  rewritten.refused(asked(bodyOf('a'), { segment: 's' }), 429)
  assert.equal(rewritten.take(asking(bodyOf('a'), { segment: 's' })), true)
})

test('nobody else is marked, nor what OpenClaw asks beside the conversation', () => {
  const rewritten = new Rewritten()
  for (const request of [
    asked(bodyOf('a', 'You are a helper.'), { headers: { session_id: 'a' } }),
    asked(bodyOf('a', 'You summarise what is said by one that is running inside OpenClaw.')),
    asked(bodyOf('a'), { headers: { 'x-instar-turn-kind': 'side' } }),
    asked({ messages: [{ role: 'system', content: SYSTEM }, { role: 'user', content: 'no line, no header' }] }),
  ]) rewritten.refused(request, 429)
  assert.deepEqual([rewritten.take(asking(bodyOf('a'))), rewritten.take(asking(bodyOf('a', 'You are a helper.'), { headers: { session_id: 'a' } }))], [false, false])
})

test('the latest are remembered', () => {
  const rewritten = new Rewritten(2)
  for (const session of ['a', 'b', 'a', 'c']) rewritten.refused(asked(bodyOf(session)), 429)
  assert.deepEqual(['a', 'b', 'c'].map((session) => rewritten.take(asking(bodyOf(session)))), [true, false, true])
})

test('what is no request stays refused for what it was', () => {
  const rewritten = new Rewritten()
  const mark = `<!-- openclaw: ${SYSTEM} -->`
  const hostile = [mark, `["${mark}"]`, `{"a":"${mark}"}`, ...[null, 7, {}, [null], [7], [{ role: 'system', content: 7 }, { role: 'user' }], [{ role: 'system', content: [null, 7, { type: 'text' }] }], [{ role: mark, content: { [mark]: 1 } }]]
    .flatMap((messages) => [JSON.stringify({ messages, input: messages, system: messages, instructions: mark, mark }), JSON.stringify({ input: mark, messages, tools: messages })])]
  for (const dialect of Object.values(DIALECTS)) for (const body of hostile) rewritten.refused({ ...asked({}, { dialect }), body: Buffer.from(body) }, 429)
  rewritten.refused({ ...asked({}), body: Buffer.from([...Buffer.from(mark), 0xff]) }, 429)
  assert.equal(rewritten.take(asking(bodyOf('a'))), false)
})

test('in each dialect', () => {
  const [system, user] = bodyOf('a').messages.map(({ content }) => content as string) as [string, string]
  for (const [dialect, body] of [
    [DIALECTS.chat, bodyOf('a')],
    [DIALECTS.responses, { instructions: system, input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: user }] }], tools: [{}] }],
    [DIALECTS.responses, { input: [{ role: 'developer', content: system }, { role: 'user', content: user }] }],
    [DIALECTS.messages, { system: [{ type: 'text', text: system }], messages: [{ role: 'user', content: [{ type: 'text', text: user }] }] }],
  ] as const) {
    const rewritten = new Rewritten()
    rewritten.refused(asked(body, { dialect }), 429)
    assert.equal(rewritten.take(asking(bodyOf('a'))), true, dialect.name)
  }
})
