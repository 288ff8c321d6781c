import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { progressOf, progressText } from './progress.ts'

test('the time left of an update is that of the done part, scaled; before anything is done it is not known', () => {
  equal(progressText(progressOf(7, 0.625, 65_000)), 'update 7: 62 %, 39 s left')
  equal(progressText(progressOf(1, 0, 5000)), 'update 1: 0 %')
  equal(progressOf(7, 0.99, 99_000).remainingMs, 1000)
})
