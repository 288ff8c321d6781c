/** Beside test/simulation, which holds what a trainer knows from scores to the log. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ahead } from './told.ts'

test('records that were read before what they refer to are noted up to a limit, beyond which the trainer does not leave `turns`', () => {
  const ahead = new Ahead()
  for (let n = 0; n < 10_000; n += 1) ahead.add(`turn ${n}`)
  assert.equal(ahead.isEmpty, false)
  for (let n = 0; n < 10_000; n += 1) ahead.delete(`turn ${n}`)
  assert.equal(ahead.isEmpty, true)
  for (let n = 0; n <= 10_000; n += 1) ahead.add(`turn ${n}`)
  for (let n = 0; n <= 10_000; n += 1) ahead.delete(`turn ${n}`)
  assert.equal(ahead.isEmpty, false)
})
