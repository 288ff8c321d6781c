import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lastRequest, messagesOf, saidSince, stripWrappers } from './conversation.ts'

const body = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value))

test('the next state is what stands behind the answer, by who said it', () => {
  const messages = messagesOf('chat', body({ messages: [
    { role: 'user', content: 'list files' }, { role: 'assistant', content: null, tool_calls: [] },
    { role: 'tool', content: 'a.txt' }, { role: 'tool', content: [{ type: 'text', text: 'b.txt' }] }, { role: 'system', content: 'the date' }, { role: 'user', content: [{ type: 'text', text: 'thanks' }] },
  ] }))
  assert.deepEqual(saidSince(messages, 2), { user: 'thanks', tools: 'a.txt\nb.txt' })
  assert.equal(lastRequest(messages.slice(0, 2)), 'list files')
})

test('odd bodies yield what they have', () => {
  assert.deepEqual(messagesOf('chat', body({ messages: [{ role: 'tool', content: 'done' }, 7, {}] })), [{ role: 'tool', text: 'done' }, { role: '', text: '' }, { role: '', text: '' }])
  assert.deepEqual(messagesOf('chat', body([])), [])
  assert.deepEqual(messagesOf('chat', Buffer.from('{')), [])
})

test('what agents put around a person\'s words is not theirs', () => {
  assert.equal(stripWrappers('<system-reminder>The current date is…</system-reminder>\nToo long.'), 'Too long.')
  assert.equal(stripWrappers('[Sat 2026-11-21 04:09 UTC] shorter, please'), 'shorter, please')
  assert.equal(stripWrappers('<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nwrong, bad\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>'), '')
  assert.equal(stripWrappers('Compare them.\n\nYour response above was cut off mid-stream. Resume directly from where it stops \u2014 no apology, no recap. If none of it survived, answer the request from the start.'), 'Compare them.')
  assert.equal(stripWrappers('The connection dropped mid-response. Resume directly.\n\nThe previous one ended with:\n<previous_response_suffix>\nHalf\n</previous_response_suffix>'), '')
  assert.equal(stripWrappers('Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.'), '')
  for (const words of ['I updated the files.', 'I am not sharing any files that you can edit yet.', 'I have *added these files to the chat* so you can go ahead and edit them.\n\na.txt\n```\nred\n```']) assert.equal(stripWrappers(words), '')
  assert.equal(stripWrappers('Make it blue.\n\n# *SEARCH/REPLACE block* Rules:\n\nEvery block must use this format.\n\nReply in English.'), 'Make it blue.')
  assert.equal(stripWrappers('"fix the test"'), 'fix the test')
  assert.equal(stripWrappers('say "hello"'), 'say "hello"')
  assert.equal(stripWrappers('[1, 2] is sorted'), '[1, 2] is sorted')
})
