/** Batches that are chosen, and computed, while the gate measures their parent. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { COUNTED, updateLine, weightLine, type BatchSealed } from '@instar/events'
import { computedUpdate } from '../../../../test/kit/updates.ts'
import { idOf, Line, OPTIONS } from '../../../../test/kit/trainer-line.ts'
import { isSameBatch, type Ahead } from './ahead.ts'
import { decide } from './decide.ts'
import { moveTurns } from './pending.ts'

const options = { ...OPTIONS, batchSize: 2, batchMax: 4, settings: { klParentMax: 0.02 } }

/** A line whose first batch is computed and not measured, with `waiting` further turns. */
const measured = (waiting: number): { line: Line; update: string } => {
  const line = new Line()
  for (let i = 0; i < 2; i += 1) line.scored(idOf(i), 0)
  line.seal(options)
  const { chain, last } = updateLine(line.state.updates, 'policy')
  const update = line.read(computedUpdate(1, { prev: chain.tip, batch: last }))
  for (let i = 2; i < 2 + waiting; i += 1) line.scored(idOf(i), 0)
  return { line, update }
}

const verdict = (line: Line, update: string, accepted: boolean): void => {
  const { tip } = weightLine(line.state.weights, 'policy').chain
  const common = { prev: tip, policy: 'policy', update, parent: 0, at: 5, adapter: 'a1' }
  const candidate = { adapterBytes: 1, state: 's1', blobsAt: 1, why: 'update', source: null } as const
  line.read(
    accepted
      ? { type: 'VersionPublished', number: 1, ...common, ...candidate, figures: {} }
      : { type: 'VersionRejected', ...common, reason: 'kl_parent', figures: { kl_parent: 1 }, evidence: [] },
  )
}

const chosen = (line: Line, ahead: Ahead | null = null): Ahead => {
  const decision = decide(line.state, options, 9, true, ahead)
  assert.ok(decision.do === 'ahead', decision.do)
  return decision.ahead
}
const sealedNow = (line: Line, ahead: Ahead | null): { sealed: BatchSealed; ahead: boolean } => {
  const decision = decide(line.state, options, 10, true, ahead)
  assert.ok(decision.do === 'append' && decision.event.type === 'BatchSealed', decision.do)
  return { sealed: decision.event, ahead: decision.ahead ?? false }
}
const turnsOf = ({ items }: BatchSealed): string[] => items.map(({ turn }) => turn)

test('while the gate measures a candidate the next batch is chosen on it, once, and sealed when it is the head', () => {
  const { line, update } = measured(2)
  const ahead = chosen(line)
  assert.equal(ahead.update, update)
  assert.deepEqual(ahead.sealed.parent, { version: 1, adapter: 'a1', state: 's1' })
  assert.deepEqual(turnsOf(ahead.sealed), [idOf(2), idOf(3)])
  assert.deepEqual(decide(line.state, options, 9, true, ahead), { do: 'wait', why: 'verdict' })
  line.scored(idOf(4), 0)
  verdict(line, update, true)
  const { sealed, ahead: isAhead } = sealedNow(line, ahead)
  assert.ok(isAhead)
  assert.deepEqual(turnsOf(sealed), [idOf(2), idOf(3)])
  assert.ok(isSameBatch(sealed, ahead.sealed))
  assert.equal(sealed.prev, updateLine(line.state.updates, 'policy').chain.tip)
  // Without it, the turn that came later is in the batch.
  assert.deepEqual(turnsOf(sealedNow(line, null).sealed), [idOf(2), idOf(3), idOf(4)])
})

test('a batch on a rejected candidate is discarded', () => {
  const { line, update } = measured(2)
  const ahead = chosen(line)
  verdict(line, update, false)
  const { sealed, ahead: isAhead } = sealedNow(line, ahead)
  assert.equal(isAhead, false)
  assert.equal(sealed.parent.version, 0)
  assert.equal(sealed.settings.klParentMax, 0.01)
  assert.equal(isSameBatch(sealed, ahead.sealed), false)
})

test('a batch with a turn whose reward has changed since is discarded', () => {
  const { line, update } = measured(2)
  const ahead = chosen(line)
  const score = line.state.scores.turns.get(idOf(3))!
  line.state.scores.turns.set(idOf(3), { ...score, reward: 0.5, score: 'another' })
  verdict(line, update, true)
  const { sealed, ahead: isAhead } = sealedNow(line, ahead)
  assert.deepEqual([isAhead, sealed.items.find(({ turn }) => turn === idOf(3))?.reward], [false, 0.5])
})

test('a batch with a turn whose session has been discarded since is discarded', () => {
  const { line, update } = measured(3)
  const ahead = chosen(line)
  const turn = line.state.turns.turns.get(idOf(3))!
  moveTurns(line.state, [idOf(3)], () => {
    turn.discardedBy = 'closing'
    return COUNTED
  })
  verdict(line, update, true)
  const { sealed, ahead: isAhead } = sealedNow(line, ahead)
  assert.deepEqual([isAhead, turnsOf(sealed)], [false, [idOf(2), idOf(4)]])
  assert.deepEqual(sealed.dropped, [{ turn: idOf(3), reason: 'discarded' }])
})

test('no batch is chosen ahead by a trainer that computes none, with too few turns, frozen, or on a candidate that cannot become the head', () => {
  const { line } = measured(2)
  assert.deepEqual(decide(line.state, options, 9), { do: 'wait', why: 'verdict' })
  const few = measured(1).line
  assert.deepEqual(decide(few.state, options, 9, true, null), { do: 'wait', why: 'verdict' })
  line.freeze(true)
  assert.deepEqual(decide(line.state, options, 9, true, null), { do: 'wait', why: 'verdict' })
  line.freeze(false)
  assert.equal(chosen(line).sealed.items.length, 2)
  const moved = weightLine(line.state.weights, 'policy')
  moved.head = 7
  assert.deepEqual(decide(line.state, options, 9, true, null), { do: 'wait', why: 'verdict' })
})

test('turns that would be stale under the candidate are not chosen', () => {
  const { line } = measured(3)
  const stale = { ...options, staleness: 0 }
  assert.deepEqual(decide(line.state, stale, 9, true, null), { do: 'wait', why: 'verdict' })
  assert.equal(decide(line.state, { ...options, staleness: 1 }, 9, true, null).do, 'ahead')
})
