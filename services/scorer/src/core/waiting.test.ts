/** Which scored turns count as waiting for a batch, and how many may. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BatchSealed, ScoredFacts, ScoresEvent } from '@instar/events'
import { MOST_WAITING, WAITING_MS, WaitingTurns } from './waiting.ts'

const FACTS: ScoredFacts = {
  record: 'r',
  group: 'g',
  candidates: 1,
  shown: true,
  key: null,
  task: null,
  unusable: null,
  begunAt: 1,
  at: 1,
  finishedAt: 1,
  earlier: [],
}

type More = { key?: string | null; subject?: string; version?: number; at?: number; facts?: Partial<ScoredFacts> }
const scored = (
  turn: string,
  { key = null, subject = 'anna', version = 0, at = 1000, facts = {} }: More = {},
): ScoresEvent => ({
  type: 'TurnScored',
  turn,
  session: 's',
  policy: 'policy',
  version,
  subject,
  reward: 1,
  judge: 'j',
  hint: null,
  hintJudge: null,
  verdicts: [],
  cause: 'c',
  rank: null,
  of: { ...FACTS, key, ...facts },
  at,
})
const skipped = (turn: string): ScoresEvent => {
  const {
    reward: _,
    judge: __,
    hint: ___,
    hintJudge: ____,
    ...rest
  } = scored(turn) as ScoresEvent & { type: 'TurnScored' }
  return { ...rest, type: 'TurnSkipped', reason: 'discarded' }
}
const batch = (...turns: string[]): BatchSealed =>
  ({ policy: 'policy', items: turns.map((turn) => ({ turn })), dropped: [] }) as unknown as BatchSealed

const all = (_version: number): boolean => true
const MOST = 8
/** Whether there is room for one more turn of this key and subject. */
const room = (waiting: WaitingTurns, { key = null, subject = 'anna' }: More = {}, usable = all): boolean =>
  waiting.hasRoom('policy', { key: key ?? '', subject }, usable, MOST)
const filled = (count: number, more: More = {}): WaitingTurns => {
  const waiting = new WaitingTurns()
  for (let n = 0; n < count; n += 1) waiting.foldScore(scored(`t${n}`, more))
  return waiting
}

test('there is room up to the limit, and again once a batch has taken a turn or its reward is withdrawn', () => {
  assert.deepEqual(
    [0, MOST - 1, MOST, MOST + 1].map((count) => room(filled(count))),
    [true, true, false, false],
  )
  const waiting = filled(MOST)
  waiting.foldBatch(batch('t0'))
  assert.deepEqual([room(waiting), waiting.left, waiting.size], [true, 1, MOST - 1])
  waiting.foldScore(scored('t100'))
  assert.equal(room(waiting), false)
  waiting.foldScore(skipped('t100'))
  assert.equal(room(waiting), true)
})

test('a turn counts once, and not if a batch that was read before its score has taken it', () => {
  const waiting = filled(MOST - 1)
  for (const event of [scored('t0'), { ...scored('t0'), type: 'ScoreRevised' } as ScoresEvent]) waiting.foldScore(event)
  assert.equal(waiting.size, MOST - 1)
  waiting.foldBatch(batch('later'))
  waiting.foldScore(scored('later'))
  assert.deepEqual([waiting.size, room(waiting)], [MOST - 1, true])
})

test('turns that no batch can use, those of a task and those of other policies do not count', () => {
  const waiting = filled(MOST - 1)
  waiting.foldScore(scored('a', { facts: { unusable: 'greedy' } }))
  waiting.foldScore(scored('b', { facts: { task: 'sums' } }))
  waiting.foldScore({ ...scored('c'), policy: 'other' })
  assert.equal(room(waiting), true)
  waiting.foldScore({ ...scored('d'), of: null })
  assert.equal(room(waiting), false, 'a score of an older build says nothing of its turn')
})

test('turns of versions that no batch takes do not count, and count again after a rollback to one of them', () => {
  const waiting = filled(MOST, { version: 1 })
  assert.equal(
    room(waiting, {}, (version) => version > 1),
    true,
  )
  assert.equal(
    room(waiting, {}, (version) => version === 1),
    false,
  )
})

test('a key below its equal part has room beyond the limit, however many turns others have', () => {
  const waiting = filled(10 * MOST, { key: 'heavy' })
  assert.equal(room(waiting, { key: 'heavy' }), false)
  const taken: boolean[] = []
  for (let n = 0; n <= MOST / 2; n += 1) {
    taken.push(room(waiting, { key: 'light', subject: `of ${n}` }))
    waiting.foldScore(scored(`light ${n}`, { key: 'light', subject: `of ${n}` }))
  }
  assert.deepEqual(taken, [true, true, true, true, false])
  assert.equal(room(waiting, { key: 'third' }), true)
})

test('in the upper half a subject has its equal part, and beyond the limit names of subjects give no room', () => {
  const waiting = filled(MOST / 2, { subject: 'heavy' })
  waiting.foldScore(scored('light', { subject: 'light' }))
  assert.deepEqual(
    ['heavy', 'light', 'new'].map((subject) => room(waiting, { subject })),
    [false, true, true],
  )
  assert.equal(room(filled(MOST / 2, { subject: 'alone' }), { subject: 'alone' }), true)
  for (let n = 0; n < MOST; n += 1) waiting.foldScore(scored(`x${n}`, { subject: `made up ${n}` }))
  assert.equal(room(waiting, { subject: 'another' }), false)
})

test('a turn counts for ten minutes', () => {
  const waiting = filled(MOST, { at: 1000 })
  waiting.expire(1000 + WAITING_MS - 1)
  assert.equal(room(waiting), false)
  waiting.expire(1000 + WAITING_MS)
  assert.deepEqual([room(waiting), waiting.size, waiting.left], [true, 0, MOST])
})

test('a score of a clock that is ahead counts for ten minutes, and those behind it as long at most', () => {
  const waiting = filled(1, { at: 365 * 86_400_000 })
  for (let n = 1; n < MOST; n += 1) waiting.foldScore(scored(`t${n}`, { at: 1000 + n }))
  waiting.expire(2000)
  waiting.expire(2000 + WAITING_MS - 1)
  assert.equal(waiting.size, MOST)
  waiting.expire(2000 + WAITING_MS)
  assert.deepEqual([waiting.size, waiting.left], [0, MOST])
})

test('at most so many turns, and turns of batches, are held', () => {
  const waiting = filled(MOST_WAITING + 5)
  assert.equal(waiting.size, MOST_WAITING)
  assert.deepEqual([waiting.has('policy', 't4'), waiting.has('policy', 't5')], [false, true])
  waiting.foldBatch(batch(...Array.from({ length: MOST_WAITING + 1 }, (_, n) => `b${n}`)))
  for (const turn of ['b0', 'b1']) waiting.foldScore(scored(turn))
  assert.deepEqual([waiting.has('policy', 'b0'), waiting.has('policy', 'b1')], [true, false])
})
