import assert from 'node:assert/strict'
import { test } from 'node:test'
import { diff, words } from './word-diff.ts'

const of = (a: string, b: string) => diff(words(a), words(b))

test('each side can be read back from the runs', () => {
  for (const [a, b] of [
    ['', ''],
    ['one two', 'one two'],
    ['one two three', 'one three'],
    ['The answer is 12.', 'It is **12**, of course.'],
    ['a b c d', 'd c b a'],
  ] as const) {
    const runs = of(a, b)
    const side = (name: 'a' | 'b'): string =>
      runs
        .filter((run) => run.in === 'both' || run.in === name)
        .map(({ text }) => text)
        .join('')
    assert.equal(side('a'), a)
    assert.equal(side('b'), b)
  }
})

test('what both have is a run of both', () => {
  assert.deepEqual(of('one two three', 'one four three'), [
    { text: 'one', in: 'both' },
    { text: ' two', in: 'a' },
    { text: ' four', in: 'b' },
    { text: ' three', in: 'both' },
  ])
})
