import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message } from './agent.ts'
import { rewritesUser, sessionInMessages } from './agents.ts'
import { isOpenClaw } from './openclaw.ts'

const SYSTEM: Message = {
  role: 'system',
  content: '<!-- openclaw:attempt:STABLE -->\nYou are a personal assistant running inside OpenClaw.\n## Tooling',
}
const user = (content: unknown): Message => ({ role: 'user', content }) as Message
const RUNTIME =
  'Runtime: agent=main | session=agent:main:explicit:desk | sessionId=desk | host=host | os=Linux 6.0.0 (x64) | default_model=instar/policy'
const FIRST_MESSAGE = `[Sat 2026-11-21 20:09 UTC] Compare both files, please.\n\n${RUNTIME}`

test('the last line of the first user message contains the session', () => {
  assert.equal(sessionInMessages([SYSTEM, user(FIRST_MESSAGE)]), 'desk')
  assert.equal(
    sessionInMessages([
      SYSTEM,
      user([{ type: 'text', text: FIRST_MESSAGE }]),
      user('<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>'),
    ]),
    'desk',
  )
  assert.equal(
    sessionInMessages([
      { role: 'developer', content: 'You are a personal assistant running inside OpenClaw.' },
      user(`${RUNTIME}\n`),
    ]),
    'desk',
  )
  // A line that the user copied comes before the line that OpenClaw adds.
  assert.equal(
    sessionInMessages([SYSTEM, user(`${RUNTIME.replace('=desk |', '=other |')}\nWhat is this?\n\n${RUNTIME}`)]),
    'desk',
  )
})

test('a session in any other place or format is ignored', () => {
  for (const messages of [
    [],
    [SYSTEM],
    [user(FIRST_MESSAGE)],
    [
      { role: 'system', content: 'You summarise. The user is running inside OpenClaw.' } as Message,
      user(FIRST_MESSAGE),
    ],
    [SYSTEM, user('Hello'), user(FIRST_MESSAGE)],
    [SYSTEM, user(`${FIRST_MESSAGE}\nAnd one more thing`)],
    [SYSTEM, user(FIRST_MESSAGE.replace('\n\nRuntime', ' Runtime'))],
    [SYSTEM, user('My sessionId=desk')],
    [SYSTEM, user(FIRST_MESSAGE.replace('sessionId=desk', `sessionId=${'d'.repeat(201)}`))],
    [SYSTEM, user(FIRST_MESSAGE.replace('sessionId=desk', 'sessionId='))],
    [SYSTEM, user(FIRST_MESSAGE.replace('sessionId=desk', 'sessionId=a b'))],
  ])
    assert.equal(sessionInMessages(messages), null, JSON.stringify(messages).slice(-200))
  assert.deepEqual([isOpenClaw([SYSTEM]), isOpenClaw([user(FIRST_MESSAGE)])], [true, false])
})

test('a message of 3.8 MB without the line is searched in linear time', () => {
  const text = 'Runtime: agent=x | '.repeat(200_000)
  const from = performance.now()
  assert.equal(sessionInMessages([SYSTEM, user(text)]), null)
  assert.ok(performance.now() - from < 200)
})

test('a rewritten user message is recognized by its start, after the date and before added context', () => {
  const added = user('<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone')
  const queued =
    '[Queued user message from a previous active turn; preserved as context only. Continue with the active prompt below.]\nCompare both.'
  const continuation = 'Continue the current task from the existing transcript, preserving completed work.'
  for (const words of [
    queued,
    `[Sat 2026-11-21 22:51 UTC] ${queued}`,
    continuation,
    `[Sat 2026-11-21 22:52 UTC] ${continuation}`,
  ]) {
    assert.equal(rewritesUser([SYSTEM, user('Hello'), user(words), added]), true)
    assert.equal(
      rewritesUser([SYSTEM, user([{ type: 'text', text: words }]), { role: 'tool', content: 'red' } as Message, added]),
      true,
    )
    assert.equal(rewritesUser([SYSTEM, user(words), user('And now?'), added]), false)
    assert.equal(rewritesUser([SYSTEM, user(`What does "${words}" mean?`)]), false)
    assert.equal(rewritesUser([user(words)]), false)
  }
  assert.deepEqual(
    [rewritesUser([]), rewritesUser([SYSTEM]), rewritesUser([SYSTEM, user(FIRST_MESSAGE), added])],
    [false, false, false],
  )
})
