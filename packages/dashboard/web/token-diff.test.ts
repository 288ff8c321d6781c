import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agreeing, differing, MOST, words } from './token-diff.ts'

const marks = (a: string, b: string): [string, string] => {
  const found = differing([...a], [...b])
  const shown = (text: string, differs: readonly boolean[]): string =>
    [...text].map((letter, i) => (differs[i] ? letter : '-')).join('')
  return [shown(a, found.a), shown(b, found.b)]
}

test('entries that are not part of the longest common subsequence differ', () => {
  assert.deepEqual(marks('', ''), ['', ''])
  assert.deepEqual(marks('abc', 'abc'), ['---', '---'])
  assert.deepEqual(marks('abc', ''), ['abc', ''])
  assert.deepEqual(marks('abcd', 'axcd'), ['-b--', '-x--'])
  assert.deepEqual(marks('abcdef', 'acdxf'), ['-b--e-', '---x-'])
  assert.deepEqual(marks('ab', 'ba').join(' '), 'a- -a')
})

test('ids are compared, not texts, and what is beyond the limit differs', () => {
  assert.deepEqual(differing([1, 2, 3], [1, 12, 3]).a, [false, true, false])
  const long = Array.from({ length: MOST + 2 }, (_, i) => i)
  assert.deepEqual(differing(long, long).b.slice(MOST - 1), [false, true, true])
})

test('the entries with which both begin are counted', () => {
  assert.deepEqual(
    [agreeing([1, 2, 3], [1, 2, 4]), agreeing([1, 2], [1, 2]), agreeing([1, 2], [1]), agreeing([], [1])],
    [2, 2, 1, 0],
  )
})

test('words with their spaces are the whole text', () => {
  for (const text of ['', 'one', ' The answer\nis 12. ']) assert.equal(words(text).join(''), text)
})
