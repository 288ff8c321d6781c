/** Turns that no batch can use: whatever their number, records stay small and decisions cheap. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Event } from '@instar/events'
import { MAX_RECORD_BYTES } from '@instar/log/kafka/topics'
import { MAX_DROPPED, MAX_DROPPED_BYTES, MAX_ITEMS } from './batch.ts'
import { decide } from './decide.ts'
import { countPending } from './pending.ts'
import { idOf, Line, OPTIONS } from '../../../../test/kit/trainer-line.ts'

test('130,000 turns during a freeze: records stay small, and each turn is trained or dropped once', () => {
  const line = new Line()
  line.freeze(true)
  const count = 130_000
  for (let i = 0; i < count; i += 1) line.scored(idOf(i), 0)
  assert.equal(line.seal(), null)
  line.freeze(false)
  const outcomes = new Map<string, string>()
  let largest = 0
  let next = count
  // The latest turns wait for as many batches as a turn may be stale.
  for (let batches = 0; countPending(line.state) > 5 * OPTIONS.batchSize; batches += 1) {
    assert.ok(batches < 120, `${countPending(line.state)} still wait`)
    // Conversations continue, on any version that serves.
    for (let i = 0; i < 16; i += 1) line.scored(idOf(next++), line.state.weights.lines.get('policy')!.head)
    const sealed = line.seal()
    assert.ok(sealed)
    assert.equal(sealed.items.length, 16)
    assert.ok(sealed.dropped.length <= MAX_DROPPED)
    largest = Math.max(largest, line.bytes)
    for (const { turn } of sealed.items) outcomes.set(turn, outcomes.has(turn) ? 'twice' : 'trained')
    for (const { turn, reason } of sealed.dropped) outcomes.set(turn, outcomes.has(turn) ? 'twice' : reason)
    line.publish()
  }
  assert.ok(largest < MAX_DROPPED_BYTES + (16 << 10), `${largest} bytes`)
  assert.deepEqual(new Set(outcomes.values()), new Set(['trained', 'stale']))
  assert.equal(outcomes.size + countPending(line.state), next)
})

test('the cost of a decision does not depend on the number of stale, unusable and foreign turns', () => {
  const costs = [100, 20_000].map((stale) => {
    const line = new Line()
    for (let number = 1; number <= 6; number += 1) {
      for (let i = 0; i < 16; i += 1) line.scored(idOf(1e6 + 16 * number + i), number - 1)
      line.seal()
      line.publish()
    }
    for (let i = 0; i < stale; i += 1) line.scored(idOf(i), 0)
    const useless = [{ trainable: false, reason: 'side' }, { policy: 'another' }]
    for (let i = 0; i < stale; i += 1) line.scored(idOf(1e5 + i), 6, useless[i % 2])
    line.lookups = 0
    assert.deepEqual(decide(line.state, OPTIONS, 9), { do: 'wait', why: 'turns' })
    const waiting = line.lookups
    for (let i = 0; i < 16; i += 1) line.scored(idOf(2e6 + i), 6)
    line.lookups = 0
    const sealed = line.seal()
    assert.equal(sealed?.items.length, 16)
    assert.equal(sealed.dropped.length, Math.min((3 * stale) / 1.5, MAX_DROPPED))
    return { waiting, sealing: line.lookups }
  })
  assert.deepEqual(
    costs.map(({ waiting }) => waiting),
    [0, 0],
  )
  assert.ok(costs[1]!.sealing < 4 * MAX_DROPPED, `${costs[1]!.sealing} look-ups`)
})

test('the largest record of a batch fits the log, whatever the lengths of ids, subjects and hints', () => {
  const line = new Line()
  const options = { ...OPTIONS, batchSize: MAX_ITEMS }
  const long = (i: number, bytes: number): string => `${'é'.repeat(bytes / 2)}.${String(i).padStart(32, '0')}`
  const group = { group: 'g', candidates: 200, session: 's' }
  const subject = 'ü'.repeat(700)
  const candidates = Array.from({ length: 200 }, (_, i) => ({ ...group, candidate: i, shown: i === 0, subject }))
  for (const [i, candidate] of candidates.entries()) line.scored(long(1e6 + i, 1400), 0, candidate)
  const beside = candidates.map((_, i) => line.state.turns.turns.get(long(1e6 + i, 1400))!)
  line.state.turns.sessions.set('s', { turns: beside, byGroup: new Map([['g', beside]]) } as never)
  for (let i = 0; i < MAX_ITEMS - 1; i += 1) line.scored(long(i, 1400), 0, { subject: `${'ü'.repeat(650)}${i}` })
  for (let i = 0; i < 3 * MAX_DROPPED; i += 1) line.scored(long(2e6 + i, 2800), 7, { subject: 'u' })
  const sealed = line.seal(options)
  assert.ok(sealed && sealed.items.length > MAX_ITEMS + 100, `${sealed?.items.length} items`)
  assert.ok(sealed.dropped.length > 50)
  assert.ok(line.bytes < MAX_RECORD_BYTES - (1 << 20), `${line.bytes} bytes`)
  const dropped = sealed.dropped.reduce((sum, { turn, reason }) => sum + Buffer.byteLength(turn + reason), 0)
  assert.ok(dropped <= MAX_DROPPED_BYTES)
  line.scored(long(5e6, 4000), 0)
  assert.ok(!line.state.pending.get('0 ')?.has(long(5e6, 4000)), 'a turn that is too long is in no batch')
})

test('a scored turn whose own record has not been read is in no batch and does not block others', () => {
  const line = new Line()
  const event: Event = {
    type: 'TurnScored',
    turn: 's.1',
    session: 's',
    policy: 'policy',
    version: 0,
    subject: 'u',
    verdicts: [],
    cause: 'c',
    rank: null,
    at: 2,
    reward: 1,
    judge: 'j',
    hint: null,
    hintJudge: null,
  }
  line.read(event)
  assert.deepEqual([...line.state.pending.keys()], ['unread'])
  const options = { ...OPTIONS, batchSize: 1 }
  assert.equal(decide(line.state, options, 9).do, 'wait')
  line.scored('s.2', 0)
  assert.deepEqual(
    line.seal(options)?.items.map(({ turn }) => turn),
    ['s.2'],
  )
  assert.deepEqual([...line.state.pending.keys()], ['unread'])
})
