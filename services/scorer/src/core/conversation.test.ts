import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  beforeRequest,
  lastRequest,
  messagesOf,
  saidSince,
  stripWrappers,
  wrappedInRequest,
  wrappedSince,
} from './conversation.ts'

const body = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value))

test('the next state is what stands behind the answer, by who said it', () => {
  const messages = messagesOf(
    'chat',
    body({
      messages: [
        { role: 'user', content: 'list files' },
        { role: 'assistant', content: null, tool_calls: [] },
        { role: 'tool', content: 'a.txt' },
        { role: 'tool', content: [{ type: 'text', text: 'b.txt' }] },
        { role: 'system', content: 'the date' },
        { role: 'user', content: [{ type: 'text', text: 'thanks' }] },
      ],
    }),
  )
  assert.deepEqual(saidSince({ messages: messages.slice(0, 1), text: '' }, messages, 2), {
    user: 'thanks',
    tools: 'a.txt\nb.txt',
  })
  assert.equal(lastRequest(messages.slice(0, 2)), 'list files')
})

const say = (role: string, text: string) => ({ role, text })
const PROMPT = [say('system', 'Act.'), say('user', 'Read both.')]
const ACTION = 'Thought: I look.\nAction: read\nAction Input: {"lines":  2}'

test('what a text agent puts behind the answer in the same message is what a tool said', () => {
  const after = [...PROMPT, say('assistant', `${ACTION}\nObservation: It is red.`)]
  assert.deepEqual(saidSince({ messages: PROMPT, text: ACTION }, after, 3), {
    user: '',
    tools: 'Observation: It is red.',
  })
  const more = [
    ...after,
    say('user', 'Analyze the tool result. If requirements are met, provide the Final Answer. Else go on.'),
  ]
  assert.deepEqual(saidSince({ messages: PROMPT, text: ACTION }, more, 3), {
    user: '',
    tools: 'Observation: It is red.',
  })
  // Another step in the message that the request held already: only what is behind this answer.
  const step = [...PROMPT, say('assistant', `${after[2]!.text}\n${ACTION}\nObservation: It is blue.`)]
  assert.deepEqual(saidSince({ messages: after, text: ACTION }, step, 3), {
    user: '',
    tools: 'Observation: It is blue.',
  })
  assert.deepEqual(saidSince({ messages: PROMPT, text: 'Yes' }, [...PROMPT, say('assistant', 'Yes\nand no')], 3), {
    user: '',
    tools: '',
  })
})

test("a result in the user's name is a tool's, up to the user's next task; where nothing was called it is the user's", () => {
  const called = [...PROMPT, say('assistant', "<code>\nf()\n</code>\nCalling tools:\n[{'id': 'call_1'}]")]
  const code = { messages: PROMPT, text: '<code>\nf()\n' }
  const observed = (text: string) => saidSince(code, [...called, say('user', text)], 3)
  assert.deepEqual(observed('Observation:\nred\nNew task:\nThat was wrong.'), {
    user: 'That was wrong.',
    tools: 'Observation:\nred',
  })
  assert.deepEqual(observed('Call id: 1\nError:\nno such file'), {
    user: '',
    tools: 'Call id: 1\nError:\nno such file',
  })
  assert.deepEqual(observed('New task:\nShorter, please.'), { user: 'Shorter, please.', tools: '' })
  const plain = [...PROMPT, say('assistant', 'Red.'), say('user', 'Observation: that was wrong.')]
  assert.deepEqual(saidSince({ messages: PROMPT, text: 'Red.' }, plain, 3), {
    user: 'Observation: that was wrong.',
    tools: '',
  })
})

test('odd bodies yield what they have', () => {
  assert.deepEqual(messagesOf('chat', body({ messages: [{ role: 'tool', content: 'done' }, 7, {}] })), [
    { role: 'tool', text: 'done' },
    { role: '', text: '' },
    { role: '', text: '' },
  ])
  assert.deepEqual(messagesOf('chat', body([])), [])
  assert.deepEqual(messagesOf('chat', Buffer.from('{')), [])
})

test("what agents put around a person's words is not theirs", () => {
  assert.equal(stripWrappers('<system-reminder>The current date is…</system-reminder>\nToo long.'), 'Too long.')
  assert.equal(stripWrappers('[Sat 2026-11-21 04:09 UTC] shorter, please'), 'shorter, please')
  assert.equal(
    stripWrappers('<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nwrong, bad\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>'),
    '',
  )
  assert.equal(
    stripWrappers(
      'Compare them.\n\nYour response above was cut off mid-stream. Resume directly from where it stops \u2014 no apology, no recap. If none of it survived, answer the request from the start.',
    ),
    'Compare them.',
  )
  assert.equal(
    stripWrappers(
      'The connection dropped mid-response. Resume directly.\n\nThe previous one ended with:\n<previous_response_suffix>\nHalf\n</previous_response_suffix>',
    ),
    '',
  )
  assert.equal(
    stripWrappers(
      'Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.',
    ),
    '',
  )
  for (const words of [
    'I updated the files.',
    'I am not sharing any files that you can edit yet.',
    'I have *added these files to the chat* so you can go ahead and edit them.\n\na.txt\n```\nred\n```',
  ])
    assert.equal(stripWrappers(words), '')
  assert.equal(
    stripWrappers(
      'Make it blue.\n\n# *SEARCH/REPLACE block* Rules:\n\nEvery block must use this format.\n\nReply in English.',
    ),
    'Make it blue.',
  )
  assert.equal(stripWrappers('"fix the test"'), 'fix the test')
  assert.equal(stripWrappers('say "hello"'), 'say "hello"')
  assert.equal(stripWrappers('[1, 2] is sorted'), '[1, 2] is sorted')
})

test('what is not read as words is kept beside them: a person can type a wrapper, too', () => {
  const hidden = '<system-reminder>the answer was wrong</system-reminder>'
  const rules = '# *SEARCH/REPLACE block* Rules:\nSay nothing good.'
  const talk = [
    { role: 'user', text: 'First.<system-reminder>old</system-reminder>' },
    { role: 'user', text: `Add them. ${hidden}` },
    { role: 'user', text: '<environment_context>x' },
    { role: 'assistant', text: hidden },
  ]
  assert.equal(lastRequest(talk), 'Add them.')
  assert.equal(wrappedInRequest(talk), `${hidden}\n<environment_context>x`)
  const after = [...talk, { role: 'tool', text: hidden }, { role: 'user', text: `Thanks.${hidden}\n${rules}` }]
  assert.equal(wrappedSince(after, 4), `${hidden}\n${rules}`)
  assert.equal(wrappedSince([{ role: 'user', text: 'Thanks.' }], 0), '')
  assert.equal(wrappedInRequest([{ role: 'user', text: hidden }]), hidden)
})

test('what stood before the request is the system text, the last six messages and the names of the tools, in each dialect', () => {
  const turns = Array.from({ length: 9 }, (_, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: `m${i}` }))
  const chat = {
    messages: [{ role: 'system', content: 'Be brief.' }, ...turns],
    tools: [{ function: { name: 'bash' } }, {}],
  }
  const anthropic = { system: 'Be brief.', messages: turns, tools: [{ name: 'bash' }, null] }
  for (const [dialect, request] of [
    ['chat', chat],
    ['messages', anthropic],
  ] as const) {
    const body = Buffer.from(JSON.stringify(request))
    const before = beforeRequest(body, messagesOf(dialect, body))
    assert.equal(before?.system, 'Be brief.', dialect)
    assert.deepEqual(
      before.messages.map(({ text }) => text),
      ['m2', 'm3', 'm4', 'm5', 'm6', 'm7'],
    )
    assert.deepEqual(before.tools, ['bash'])
  }
  const plain = Buffer.from(JSON.stringify({ messages: turns.slice(0, 1) }))
  assert.equal(beforeRequest(plain, messagesOf('chat', plain)), undefined)
})
