import assert from 'node:assert/strict'
import { it } from 'node:test'
import { answerKey } from '@instar/events'
import { lastAnswer } from './last-answer.ts'

it('a string, one text part and null content beside calls are the same answer', () => {
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

it('nothing behind the answer is no next state', () => {
  assert.deepEqual(
    lastAnswer([
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'a' },
    ]),
    { after: null, stateFrom: 2 },
  )
  assert.deepEqual(lastAnswer([{ role: 'user', content: 'q' }]), { after: null, stateFrom: 0 })
})

it('what aider has the model say is no answer of the model; the same word elsewhere is', () => {
  const own = { role: 'assistant', content: 'Done.' }
  const told = [
    { role: 'user', content: 'I updated the files.' },
    { role: 'assistant', content: 'Ok.' },
    { role: 'user', content: 'I have *added these files to the chat* so you can go ahead and edit them.\n\na.txt' },
    { role: 'assistant', content: 'Ok, any changes I propose will be to those files.' },
  ]
  assert.deepEqual(lastAnswer([{ role: 'user', content: 'q' }, own, ...told, { role: 'user', content: 'n' }]), {
    after: answerKey('Done.', []),
    stateFrom: 2,
  })
  assert.deepEqual(lastAnswer([...told.slice(0, 2), { role: 'user', content: 'n' }]), { after: null, stateFrom: 0 })
  assert.deepEqual(
    lastAnswer([
      { role: 'user', content: 'Agreed?' },
      { role: 'assistant', content: 'Ok.' },
      { role: 'user', content: 'n' },
    ]),
    { after: answerKey('Ok.', []), stateFrom: 2 },
  )
})
