import assert from 'node:assert/strict'
import { it } from 'node:test'
import { answerKey } from '@instar/events'
import { lastAnswer } from './last-answer.ts'

it('content as a string and as one text part, and null and empty content beside calls, have the same key', () => {
  const call = [{ id: 'x', type: 'function', function: { name: 'f', arguments: '{}' } }]
  const of = (content: unknown, calls?: unknown) =>
    lastAnswer([
      { role: 'user', content: 'q' },
      { role: 'assistant', content, tool_calls: calls },
      { role: 'user', content: 'n' },
    ])
  assert.deepEqual(of('yes'), of([{ type: 'text', text: 'yes', annotations: [] }]))
  assert.deepEqual(of(null, call), of('', call))
  assert.equal(of('yes').stateFrom, 2)
})

it('an answer that no message follows has no key', () => {
  assert.deepEqual(
    lastAnswer([
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'a' },
    ]),
    { after: null, stateFrom: 2 },
  )
  assert.deepEqual(lastAnswer([{ role: 'user', content: 'q' }]), { after: null, stateFrom: 0 })
})

it('assistant messages that aider inserts are skipped; the same text in another place is an answer', () => {
  const answer = { role: 'assistant', content: 'Done.' }
  const inserted = [
    { role: 'user', content: 'I updated the files.' },
    { role: 'assistant', content: 'Ok.' },
    { role: 'user', content: 'I have *added these files to the chat* so you can go ahead and edit them.\n\na.txt' },
    { role: 'assistant', content: 'Ok, any changes I propose will be to those files.' },
  ]
  assert.deepEqual(lastAnswer([{ role: 'user', content: 'q' }, answer, ...inserted, { role: 'user', content: 'n' }]), {
    after: answerKey('Done.', []),
    stateFrom: 2,
  })
  assert.deepEqual(lastAnswer([...inserted.slice(0, 2), { role: 'user', content: 'n' }]), { after: null, stateFrom: 0 })
  assert.deepEqual(
    lastAnswer([
      { role: 'user', content: 'Agreed?' },
      { role: 'assistant', content: 'Ok.' },
      { role: 'user', content: 'n' },
    ]),
    { after: answerKey('Ok.', []), stateFrom: 2 },
  )
})
