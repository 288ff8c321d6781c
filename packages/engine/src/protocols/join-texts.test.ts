import assert from 'node:assert/strict'
import { test } from 'node:test'
import { joinTexts } from './join-texts.ts'
import { EMPTY_DELTA, type Delta } from './wire.ts'

const text = (value: string): Delta => ({ ...EMPTY_DELTA, text: value })
const END: Delta = { ...EMPTY_DELTA, finish: 'stop' }
const TOKEN: Delta = { ...EMPTY_DELTA, tokens: [{ id: 1, logprob: -1, top: [] }] }

test('consecutive texts are joined except the last; other deltas keep their positions', () => {
  assert.deepEqual(joinTexts(['a', 'b', 'c', 'd'].map(text)), [text('abc'), text('d')])
  assert.deepEqual(joinTexts([EMPTY_DELTA, text('a'), text('b'), text('c'), END]), [
    EMPTY_DELTA,
    text('ab'),
    text('c'),
    END,
  ])
  assert.deepEqual(joinTexts([text('a'), TOKEN, text('b'), text('c')]), [text('a'), TOKEN, text('b'), text('c')])
  assert.deepEqual(joinTexts([text('a')]), [text('a')])
  assert.deepEqual(joinTexts([TOKEN, TOKEN, END]), [TOKEN, TOKEN, END])
  assert.deepEqual(joinTexts([]), [])
})
