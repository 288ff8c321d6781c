/** Beside test/simulation, which holds what a trainer knows from scores to the log. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EpisodeEnded, TurnScored } from '@instar/events'
import { logged, turnNamed } from '../../../../test/kit/scored-history.ts'
import { evolve, initialState } from './state.ts'
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

const turn = (name: string): string => turnNamed('s', name)

/** Of a turn of an episode. */
const score = (name: string, at: number): TurnScored => ({
  type: 'TurnScored',
  turn: turn(name),
  session: 's',
  policy: 'policy',
  version: 0,
  subject: 'u',
  of: {
    record: `record ${name}`,
    group: turn(name),
    candidates: 1,
    shown: true,
    key: null,
    task: 't',
    unusable: null,
    begunAt: 1,
    at,
    finishedAt: at,
    earlier: [],
  },
  reward: 1,
  judge: 'j',
  hint: null,
  hintJudge: null,
  verdicts: [],
  cause: 'c',
  rank: null,
  at: 100,
})

const ended = (names: readonly string[], part: number, at: number): EpisodeEnded => ({
  type: 'EpisodeEnded',
  session: 's',
  policy: 'policy',
  closing: 'closing',
  outcome: 1,
  endedAt: 50,
  task: 't',
  key: null,
  begunAt: 1,
  turns: names.map(turn),
  part,
  parts: 2,
  at,
})

test('the end of an episode that is said again, or in a further part, leaves the turns that it had covered in their order', () => {
  const state = initialState('policy')
  state.reads = 'scores'
  let offset = 0
  const read = (event: TurnScored | EpisodeEnded): string[] => {
    evolve(state, logged(event, (offset += 1)))
    return [...(state.episodes.get('s') ?? [])]
  }
  for (const [at, name] of ['b', 'a', 'd', 'c'].entries()) read(score(name, 10 + at))
  const first = ['b', 'a'].map(turn)
  assert.deepEqual(read(ended(['a', 'b'], 0, 101)), first)
  assert.deepEqual(read(ended(['a', 'b'], 0, 102)), first)
  assert.deepEqual(read(ended(['c', 'd'], 1, 103)), [...first, ...['c', 'd'].map(turn)])
  assert.deepEqual(read(ended(['a', 'b'], 0, 104)), [...first, ...['c', 'd'].map(turn)])
})
