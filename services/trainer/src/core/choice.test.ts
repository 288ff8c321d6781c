/** The work of a decision, counted in turns, scores and turns of sessions that it reads. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addTurn, emptySession } from '@instar/events'
import { Line, OPTIONS } from '../../../../test/kit/trainer-line.ts'

/** `count` scored turns of one session, each with `scoredOf` candidates that came, of more. */
const waiting = (count: number, came = 1): { line: Line; work: (batchMax: number) => number } => {
  const line = new Line()
  const session = emptySession('s')
  for (let i = 0; i < count; i += 1) {
    const id = `s.${i}`
    const group = `g${Math.floor(i / came)}`
    line.scored(id, 0, {
      session: 's',
      group,
      candidate: i % came,
      candidates: came + 1,
      shown: i % came === 0,
      digest: group,
      answer: { strict: id, loose: id },
      feedback: [],
    })
    addTurn(session, line.state.turns.turns.get(id)!)
  }
  session.turns = new Proxy(session.turns, {
    get: (turns, name) => {
      line.lookups += 1
      return Reflect.get(turns, name) as unknown
    },
  })
  line.state.turns.sessions.set('s', session)
  return {
    line,
    work: (batchMax) => {
      const before = line.lookups
      assert.equal(line.seal({ ...OPTIONS, batchMax }), null)
      return line.lookups - before
    },
  }
}

test('turns that wait for other candidates are examined once in a decision, whatever the size of batch and session', () => {
  const short = waiting(1500)
  const long = waiting(3000)
  assert.equal(short.work(16), long.work(16))
  // A turn is read a handful of times, at most 64 × 16 of them, or all.
  assert.ok(long.work(16) <= 64 * 16 * 6, `${long.work(16)}`)
  assert.ok(long.work(64) <= 3000 * 6, `${long.work(64)}`)
})

test('a request that waits is looked at once, however many of its candidates are pending', () => {
  const { work } = waiting(1000, 500)
  assert.ok(work(16) <= 1000 * 6, `${work(16)}`)
})

test('a batch grows to what is usable, but tries few sizes', () => {
  // Waiting turns are among the newest of each size: every size gives less than was counted.
  const { line } = waiting(2000)
  for (let i = 0; i < 40; i += 1) line.scored(`t${i}.0`, 0)
  const before = line.lookups
  assert.equal(line.seal({ ...OPTIONS, batchMax: 512, subjectShare: 1 })?.items.length, 40)
  assert.ok(line.lookups - before <= 2000 * 8, `${line.lookups - before}`)
})
