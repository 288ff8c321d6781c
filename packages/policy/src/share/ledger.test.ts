import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { ShareLedger } from './ledger.ts'

/** Serving computes steps of `step` ms without a gap, for `total` ms; returns its time and the pauses. */
const run = (
  step: (at: number) => number,
  { share, total, idleEvery = 0 }: { share: number; total: number; idleEvery?: number },
): { served: number; paused: number; longest: number } => {
  const ledger = new ShareLedger()
  const sums = { served: 0, paused: 0, longest: 0 }
  for (let at = 0, count = 1; at < total; count++) {
    const ms = step(count)
    at += ms
    sums.served += ms
    const pause = ledger.computed(ms, share)
    ledger.idle(pause)
    at += pause
    sums.paused += pause
    sums.longest = Math.max(sums.longest, pause)
    if (idleEvery > 0 && count % idleEvery === 0) {
      ledger.idle(1000)
      at += 1000
    }
  }
  return sums
}

test('without a gap in serving, learning has its share of the time for any length of a step, and serving all the rest', () => {
  for (const share of [0.1, 0.25, 0.5, 0.75])
    for (const step of [() => 0.7, () => 40, () => 300, (count: number) => (count % 10 === 0 ? 200 : 25)]) {
      const { served, paused, longest } = run(step, { share, total: 60_000 })
      ok(Math.abs(paused / (served + paused) - share) < 0.01, `${share}: ${paused / (served + paused)}`)
      ok(longest <= 2000)
    }
})

test('idle time of serving counts as the share of learning, but is not saved up for long', () => {
  // Every 20 steps of 50 ms a second passes without requests: half of the time is idle, so no pause is due for 0.2.
  ok(run(() => 50, { share: 0.2, total: 60_000, idleEvery: 20 }).paused < 3000)
  const ledger = new ShareLedger()
  ledger.idle(3_600_000)
  let unpaused = 0
  while (ledger.computed(50, 0.5) === 0) unpaused += 50
  equal(unpaused, 250)
})

test('a share of 0 never pauses, a step of a minute owes two seconds at most, and nothing is owed once learning is done', () => {
  equal(run(() => 40, { share: 0, total: 10_000 }).paused, 0)
  const ledger = new ShareLedger()
  equal(ledger.computed(60_000, 0.5), 2000)
  ledger.computed(1000, 0.5)
  ledger.reset()
  equal(ledger.computed(3, 0.5), 0)
})
