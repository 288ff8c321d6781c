/** How long a trainer whose binding was replaced waits before it takes the line again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { UpdateLine } from '@instar/events'
import { Precedence } from './precedence.ts'

const { signal } = new AbortController()
const lineOf = (binding: string, tip: string): UpdateLine =>
  ({ binding: { id: binding }, chain: { tip } }) as unknown as UpdateLine

const start = () => {
  const waited: number[] = []
  const precedence = new Precedence(async (ms) => void waited.push(ms))
  const yields = (binding: string, tip: string) => precedence.yields(lineOf(binding, tip), 'mine', signal)
  return { waited, yields }
}

test('however long the other trainer records, its line is taken after a silence of the first wait', async () => {
  const { waited, yields } = start()
  for (let record = 0; record < 40; record += 1) assert.equal(await yields('theirs', `record ${record}`), true)
  assert.deepEqual(new Set(waited), new Set([250]))
  assert.equal(await yields('theirs', 'record 39'), false)
  assert.equal(waited.length, 40)
})

test('each time that the line is taken from a trainer that lives the next wait is twice as long, up to ten minutes', async () => {
  const { waited, yields } = start()
  for (let round = 0; round < 14; round += 1) {
    assert.equal(await yields(`theirs ${round}`, `theirs ${round}`), true)
    // A binding that fails is tried again, which makes no wait longer.
    for (let attempt = 0; attempt < 3; attempt += 1)
      assert.equal(await yields(`theirs ${round}`, `theirs ${round}`), false)
    assert.equal(await yields('mine', 'mine'), false)
  }
  assert.deepEqual(waited.slice(0, 4), [250, 500, 1000, 2000])
  assert.deepEqual(waited.slice(-2), [600_000, 600_000])
})

test('once this trainer has recorded something, the waits begin anew', async () => {
  const { waited, yields } = start()
  for (const round of [0, 1, 2]) {
    await yields(`theirs ${round}`, `theirs ${round}`)
    await yields(`theirs ${round}`, `theirs ${round}`)
  }
  await yields('mine', 'a pass of mine')
  await yields('theirs again', 'theirs again')
  assert.deepEqual(waited, [250, 500, 1000, 250])
})
