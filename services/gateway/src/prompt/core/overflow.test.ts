import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message } from '@instar/dialects'
import { checkMessages, MOST_IN_ARGUMENTS, tokensBeyond } from './overflow.ts'

const CONTEXT = 1000
/** A token for every word. */
const counting = () => {
  const counted = { characters: 0 }
  const encode = (text: string): number[] => {
    counted.characters += text.length
    return text.split(' ').flatMap((word) => (word === '' ? [] : [1]))
  }
  return { counted, model: { contextLength: CONTEXT, vocabulary: 2, encode } }
}
const beyond = (...contents: string[]): number | null =>
  tokensBeyond(
    contents.map((content) => ({ role: 'user', content })),
    counting().model,
  )

test('what may fit is not looked at, what cannot is told about as it is', () => {
  const { counted, model } = counting()
  assert.equal(tokensBeyond([{ role: 'user', content: 'word '.repeat(1500) }], model), null)
  assert.equal(counted.characters, 0)
  assert.ok(tokensBeyond([{ role: 'user', content: 'word '.repeat(1_000_000) }], model)! > 990_000)
  assert.ok(counted.characters <= 16_384, `${counted.characters} characters were counted`)
  assert.equal(beyond(...Array.from({ length: 5000 }, () => 'four')), 5000)
})

test('long words, blanks and thoughts fill no context', () => {
  assert.equal(beyond('x'.repeat(1_000_000)), null)
  assert.equal(
    tokensBeyond([{ role: 'user', content: 'word '.repeat(1_000_000) }], { ...counting().model, vocabulary: 0 }),
    null,
  )
  assert.equal(beyond(' '.repeat(1_000_000)), null)
  assert.equal(
    tokensBeyond([{ role: 'assistant', content: `<think>${'word '.repeat(100_000)}</think>Hi` }], counting().model),
    null,
  )
})

test('arguments of tool calls have together no more than a body may have, and other texts may', () => {
  const call = (text: string): Message => ({
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: text } }],
  })
  const legacy = (text: string): Message => ({
    role: 'assistant',
    content: null,
    function_call: { name: 'f', arguments: text },
  })
  const objects = (count: number): string => `[${'{},'.repeat(count - 2)}{}]`
  const wide = (count: number): string => `{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join(',')}}`
  const { containers, values, widest } = MOST_IN_ARGUMENTS
  const refused = { code: 'bad_request', message: /arguments of the tool calls/ }
  checkMessages([call(objects(containers - 1)), call('not JSON'), call('{"text": "[[[{{{,,,"}')])
  for (const message of [
    call(objects(containers + 1)),
    legacy(objects(containers + 1)),
    call('[1,'.repeat(containers + 1)),
    call(`[${'1,'.repeat(values + 1)}1]`),
    call(wide(widest + 1)),
  ])
    assert.throws(() => checkMessages([{ role: 'user', content: 'Hi' }, message]), refused)
  assert.throws(() => checkMessages([call(objects(containers / 2)), call(objects(containers / 2 + 1))]), refused)
  checkMessages([call(wide(widest)), call(wide(widest))])
  checkMessages([
    { role: 'user', content: objects(200_000) },
    { role: 'tool', content: objects(200_000) },
  ])
})
