import assert from 'node:assert/strict'
import { test } from 'node:test'
import { splitsInTime } from './split-time.ts'

const splitting = (pattern: RegExp) => (text: string) => text.match(pattern)

test('patterns whose time grows exponentially are found', () => {
  for (const pattern of [/(a+)+b/gu, /(\s+)+x/gu, /(\d|\d+)*x/gu, /(\p{L}*)*$/gu, /( ?[^\n]+)+\n\t/gu])
    assert.equal(splitsInTime(splitting(pattern), 300), false, String(pattern))
})

test("GPT-2's and Llama's patterns split in time, and an error is no lack of it", () => {
  for (const pattern of [
    /'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu,
    /[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu,
  ])
    assert.equal(splitsInTime(splitting(pattern)), true, String(pattern))
  assert.equal(
    splitsInTime(() => {
      throw new Error('no such character')
    }),
    true,
  )
})
