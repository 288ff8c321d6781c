import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { readFeedback } from './feedback.ts'

test('a sign gives a reward of 1 or -1, text without a sign gives -0.5', () => {
  deepEqual(readFeedback('+'), { value: 1, comment: null })
  deepEqual(readFeedback('  -  '), { value: -1, comment: null })
  deepEqual(readFeedback('+ just as I like it'), { value: 1, comment: 'just as I like it' })
  deepEqual(readFeedback('- too long\nand loud '), { value: -1, comment: 'too long\nand loud' })
  deepEqual(readFeedback('one paragraph, please'), { value: -0.5, comment: 'one paragraph, please' })
  deepEqual(readFeedback('-1 is what I asked for'), { value: -0.5, comment: '-1 is what I asked for' })
  equal(readFeedback('   '), null)
})
