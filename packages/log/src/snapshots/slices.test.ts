import assert from 'node:assert/strict'
import test from 'node:test'
import { inSlices } from './slices.ts'

const busy = (ms: number): void => {
  for (const until = performance.now() + ms; performance.now() < until;);
}

test('the event loop turns at least 20 times during 40 ms of work', async () => {
  let turns = 0
  let over = false
  const turn = (): void => {
    turns += 1
    if (!over) setImmediate(turn)
  }
  setImmediate(turn)
  await inSlices(Array.from({ length: 160 }), () => busy(0.25))
  over = true
  assert.ok(turns >= 20, `${turns} turns`)
})
