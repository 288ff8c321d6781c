import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Untrained } from './untrained.ts'

test('the limit on trajectories that are not trained on is one per key', () => {
  const untrained = new Untrained(3)
  untrained.add('anna', 'a')
  untrained.add(null, 'a')
  for (const trajectory of ['1', '2', '3', '4']) untrained.add('ben', trajectory)
  const held = (key: string | null, ...all: string[]): boolean[] => all.map((one) => untrained.has(key, one))
  assert.deepEqual(held('anna', 'a', '1'), [true, false])
  assert.deepEqual(held(null, 'a'), [true])
  assert.deepEqual(held('ben', '1', '2', '3', '4'), [false, true, true, true])
  untrained.add('ben', '2')
  untrained.add('ben', '5')
  assert.deepEqual(held('ben', '2', '3', '4', '5'), [true, false, true, true])
  untrained.delete('ben', '4')
  untrained.delete('cleo', '4')
  assert.deepEqual(held('ben', '2', '4', '5'), [true, false, true])
})
