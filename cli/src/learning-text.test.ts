import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { learningText } from './learning-text.ts'

const FACTS = {
  started: true,
  frozen: false,
  batch: null,
  batchWaits: null,
  turnMs: [],
  pending: 9,
  batchSize: 16,
  rejectionsInARow: 0,
}
const batch = { number: 7, status: 'sealed', reason: null, verdict: false, at: 1000, turns: 16 } as const

test('learning in one line: what it does with the time left, or why it does nothing', () => {
  const text = (facts: Partial<Parameters<typeof learningText>[0]>, now = 63_000): string =>
    learningText({ ...FACTS, ...facts }, now)
  equal(text({}), 'waits for scored turns: 9 of 16')
  equal(text({ started: false }), 'nothing is learned: the line has not started (`instar up` starts it)')
  const asking = { asked: 64, of: 475, kept: 57 }
  equal(
    text({ started: false, asking }),
    'nothing is learned yet: the base answers the probes of the gate, 64 of at most 475, 57 kept',
  )
  equal(
    text({ started: false, asking: 'elsewhere' }),
    'nothing is learned yet: the line starts once the base has answered the probes of the gate (the publisher’s output says how far it is)',
  )
  const skipped = new Map([
    ['duplicate', 2],
    ['asked_for_praise', 1],
    ['abstained', 31],
  ])
  equal(
    text({ skipped }),
    'waits for scored turns: 9 of 16; 34 without a score: abstained 31, duplicate 2, asked for praise 1',
  )
  equal(text({ frozen: true }), 'nothing is learned: learning is frozen (`instar thaw` resumes it)')
  equal(text({ batch, turnMs: [1, 6250, 99_999] }), 'update 7: 62 %, 38 s left')
  equal(text({ batch }), 'update 7: computing for 62 s')
  equal(
    text({ batch, turnMs: [100] }),
    'update 7: computing for 62 s, longer than usual, or waiting: the trainer’s log says why',
  )
  equal(
    text({ batch, turnMs: [100], batchWaits: 'the log has lost the parent’s adapter or state' }),
    'update 7 waits: the log has lost the parent’s adapter or state',
  )
  equal(
    text({ batch: { ...batch, status: 'computed' }, rejectionsInARow: 2 }),
    'update 7: waits for the verdict of the gate; the last 2 updates were rejected',
  )
  equal(
    text({ batch: { ...batch, status: 'failed', reason: 'update_not_finite: x' }, rejectionsInARow: 1 }),
    'waits for scored turns: 9 of 16; the last update was rejected; update 7 failed: update_not_finite: x',
  )
  equal(text({ pending: 20 }), '20 scored turns wait for other candidates, episodes or API keys')
})
