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
const said = `[Sat 2026-11-21 20:09 UTC] Compare both files, please.\n\n${RUNTIME}`

test('the line that ends the first words of the user names the session', () => {
  assert.equal(sessionInMessages([SYSTEM, user(said)]), 'desk')
  assert.equal(
    sessionInMessages([SYSTEM, user([{ type: 'text', text: said }]), user('<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>')]),
    'desk',
  )
  assert.equal(
    sessionInMessages([
      { role: 'developer', content: 'You are a personal assistant running inside OpenClaw.' },
      user(`${RUNTIME}\n`),
    ]),
    'desk',
  )
  // What a user copies into his own words stands before the line that OpenClaw adds.
  assert.equal(
    sessionInMessages([SYSTEM, user(`${RUNTIME.replace('=desk |', '=other |')}\nWhat is this?\n\n${RUNTIME}`)]),
    'desk',
  )
})

test('nothing else does', () => {
  for (const messages of [
    [],
    [SYSTEM],
    [user(said)],
    [{ role: 'system', content: 'You summarise. The user is running inside OpenClaw.' } as Message, user(said)],
    [SYSTEM, user('Hello'), user(said)],
    [SYSTEM, user(`${said}\nAnd one more thing`)],
    [SYSTEM, user(said.replace('\n\nRuntime', ' Runtime'))],
    [SYSTEM, user('My sessionId=desk')],
    [SYSTEM, user(said.replace('sessionId=desk', `sessionId=${'d'.repeat(201)}`))],
    [SYSTEM, user(said.replace('sessionId=desk', 'sessionId='))],
    [SYSTEM, user(said.replace('sessionId=desk', 'sessionId=a b'))],
  ])
    assert.equal(sessionInMessages(messages), null, JSON.stringify(messages).slice(-200))
  assert.deepEqual([isOpenClaw([SYSTEM]), isOpenClaw([user(said)])], [true, false])
})

test('a long text without the line is read once', () => {
  const long = 'Runtime: agent=x | '.repeat(200_000)
  const from = performance.now()
  assert.equal(sessionInMessages([SYSTEM, user(long)]), null)
  assert.ok(performance.now() - from < 200)
})

test('what it says in the user’s place is known by how it begins, behind its date and before what it adds', () => {
  const added = user('<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone')
  const queued =
    '[Queued user message from a previous active turn; preserved as context only. Continue with the active prompt below.]\nCompare both.'
  const goOn = 'Continue the current task from the existing transcript, preserving completed work.'
  for (const words of [queued, `[Sat 2026-11-21 22:51 UTC] ${queued}`, goOn, `[Sat 2026-11-21 22:52 UTC] ${goOn}`]) {
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
    [rewritesUser([]), rewritesUser([SYSTEM]), rewritesUser([SYSTEM, user(said), added])],
    [false, false, false],
  )
})
