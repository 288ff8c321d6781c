import assert from 'node:assert/strict'
import { test } from 'node:test'
import { together } from './together.ts'
import { NOTHING, type Delta } from './wire.ts'

const text = (said: string): Delta => ({ ...NOTHING, text: said })
const END: Delta = { ...NOTHING, finish: 'stop' }
const TOKEN: Delta = { ...NOTHING, tokens: [{ id: 1, logprob: -1, top: [] }] }

test('texts of one arrival are one, but for the last; what is no mere text stays where it was', () => {
  assert.deepEqual(together(['a', 'b', 'c', 'd'].map(text)), [text('abc'), text('d')])
  assert.deepEqual(together([NOTHING, text('a'), text('b'), text('c'), END]), [NOTHING, text('ab'), text('c'), END])
  assert.deepEqual(together([text('a'), TOKEN, text('b'), text('c')]), [text('a'), TOKEN, text('b'), text('c')])
  assert.deepEqual(together([text('a')]), [text('a')])
  assert.deepEqual(together([TOKEN, TOKEN, END]), [TOKEN, TOKEN, END])
  assert.deepEqual(together([]), [])
})
