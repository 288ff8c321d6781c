import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tokensBeyond } from './overflow.ts'

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
