/** What waits that no batch can use: however much it is, records stay small and decisions cheap. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  encodeEvent, recordId, updateLine, type BatchSealed, type Event, type Logged, type TurnState,
} from '@instar/events'
import { MAX_RECORD_BYTES } from '@instar/log/kafka/topics'
import { MOST_DROPPED, MOST_DROPPED_BYTES, MOST_ITEMS, type BatchSettings } from './batch.ts'
import { decide } from './decide.ts'
import { countPending } from './pending.ts'
import { evolve, initialState, type MemoryTrainer } from './state.ts'

const OPTIONS: BatchSettings = { batchSize: 16, groupWaitMs: 1000, staleness: 4, loss: 'hybrid', settings: {} }

class Line {
  readonly state: MemoryTrainer = initialState('policy')
  offset = 0
  bytes = 0
  /** Turns and scores that the fold and the decision looked up. */
  looks = 0
  constructor() {
    for (const table of [this.state.turns.turns, this.state.scores.turns]) {
      const get = table.get.bind(table) as (id: string) => never
      table.get = (id: string) => {
        this.looks += 1
        return get(id)
      }
    }
    const base = { name: 'm', sha256: 'x' }
    const started = { mode: 'live', base, parent: null, settings: {}, at: 1 } as const
    this.read({ type: 'LineStarted', prev: '', policy: 'policy', ...started })
  }

  read(event: Event): string {
    const record = encodeEvent(event)
    this.bytes = record.payload.length
    const id = recordId(record)
    const { topic, key } = record
    evolve(this.state, { id, topic, key, partition: 0, offset: this.offset++, timestamp: 1, event } as Logged)
    return id
  }

  /** A turn and its score, as the folds have them: the turn's own record has fields that nobody here looks at. */
  scored(id: string, version: number, changes: Partial<TurnState> = {}, reward = this.offset % 2): void {
    const session = id.slice(0, id.lastIndexOf('.'))
    const turn = {
      turn: id, record: id, session, policy: 'policy', version, status: 'complete', kind: 'main', group: id, candidate: 0,
      candidates: 1, shown: true, subject: session, trainable: true, reason: null, ...changes,
    } as TurnState
    this.state.turns.turns.set(id, turn)
    const event: Event = {
      type: 'TurnScored', turn: id, session, policy: 'policy', version, subject: turn.subject, verdicts: [], cause: 'c',
      rank: null, at: 2, reward, judge: 'j', hint: null, hintJudge: null,
    }
    const place = { topic: 'scores', key: 'policy', partition: 0, offset: this.offset++, timestamp: 1 } as const
    evolve(this.state, { id: `score of ${id}`, ...place, event })
  }

  /** The decision's record, read back; null where it waits. */
  seal(options = OPTIONS): BatchSealed | null {
    const decision = decide(this.state, options, 9)
    if (decision.do === 'wait') return null
    assert.ok(decision.do === 'append' && decision.event.type === 'BatchSealed', decision.do)
    this.read(decision.event)
    return decision.event
  }

  /** The last batch becomes the next version. */
  publish(): void {
    const { chain, last } = updateLine(this.state.updates, 'policy')
    const number = this.state.weights.lines.get('policy')!.last + 1
    const adapter = { adapter: `a${number}`, adapterBytes: 1, state: `s${number}`, blobsAt: 1, figures: {} }
    const update = this.read({
      type: 'UpdateComputed', prev: chain.tip, policy: 'policy', batch: last, number, ...adapter, stateBytes: 1,
      startedAt: 1, at: 1, fingerprint: { engine: 'e', build: 'b', isa: 'i', threads: 1, base: 'm' },
    })
    const { tip } = this.state.weights.lines.get('policy')!.chain
    const published = { parent: number - 1, why: 'update', source: null, at: 1 } as const
    this.read({ type: 'VersionPublished', prev: tip, policy: 'policy', number, update, ...adapter, ...published })
  }

  freeze(on: boolean): void {
    const { tip } = this.state.weights.lines.get('policy')!.chain
    const request = `${on} ${this.offset}`
    this.read({ type: 'LearningFrozen', prev: tip, policy: 'policy', on, who: 'w', why: '', request, at: 3 })
  }
}

const idOf = (i: number): string => `${'5e'.repeat(32)}.${String(i).padStart(32, '0')}`

test('130,000 turns of a frozen weekend: no record is large, each turn is trained once or dropped once', () => {
  const line = new Line()
  line.freeze(true)
  const count = 130_000
  for (let i = 0; i < count; i += 1) line.scored(idOf(i), 0)
  assert.equal(line.seal(), null)
  line.freeze(false)
  const gone = new Map<string, string>()
  let largest = 0
  let next = count
  // The latest turns wait for as many batches as a turn may be stale.
  for (let batches = 0; countPending(line.state) > 5 * OPTIONS.batchSize; batches += 1) {
    assert.ok(batches < 120, `${countPending(line.state)} still wait`)
    // People talk on, to whatever serves.
    for (let i = 0; i < 16; i += 1) line.scored(idOf(next++), line.state.weights.lines.get('policy')!.head)
    const sealed = line.seal()
    assert.ok(sealed)
    assert.equal(sealed.items.length, 16)
    assert.ok(sealed.dropped.length <= MOST_DROPPED)
    largest = Math.max(largest, line.bytes)
    for (const { turn } of sealed.items) gone.set(turn, gone.has(turn) ? 'twice' : 'trained')
    for (const { turn, reason } of sealed.dropped) gone.set(turn, gone.has(turn) ? 'twice' : reason)
    line.publish()
  }
  assert.ok(largest < MOST_DROPPED_BYTES + (16 << 10), `${largest} bytes`)
  assert.deepEqual(new Set(gone.values()), new Set(['trained', 'stale']))
  assert.equal(gone.size + countPending(line.state), next)
})

test('what a decision costs does not hang on how many turns are stale, unusable or of another policy', () => {
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
    line.looks = 0
    assert.deepEqual(decide(line.state, OPTIONS, 9), { do: 'wait', why: 'turns' })
    const waiting = line.looks
    for (let i = 0; i < 16; i += 1) line.scored(idOf(2e6 + i), 6)
    line.looks = 0
    const sealed = line.seal()
    assert.equal(sealed?.items.length, 16)
    assert.equal(sealed.dropped.length, Math.min(3 * stale / 1.5, MOST_DROPPED))
    return { waiting, sealing: line.looks }
  })
  assert.deepEqual(costs.map(({ waiting }) => waiting), [0, 0])
  assert.ok(costs[1]!.sealing < 4 * MOST_DROPPED, `${costs[1]!.sealing} look-ups`)
})

test('the largest record of a batch fits a log, whatever turns, sessions, subjects and hints are called', () => {
  const line = new Line()
  const options = { ...OPTIONS, batchSize: MOST_ITEMS }
  const long = (i: number, bytes: number): string => `${'é'.repeat(bytes / 2)}.${String(i).padStart(32, '0')}`
  for (let i = 0; i < MOST_ITEMS - 1; i += 1) line.scored(long(i, 1400), 0, { subject: `${'ü'.repeat(650)}${i}` })
  const group = { group: 'g', candidates: 200, session: 's' }
  const subject = 'ü'.repeat(700)
  const candidates = Array.from({ length: 200 }, (_, i) => ({ ...group, candidate: i, shown: i === 0, subject }))
  for (const [i, candidate] of candidates.entries()) line.scored(long(1e6 + i, 1400), 0, candidate)
  const beside = candidates.map((_, i) => line.state.turns.turns.get(long(1e6 + i, 1400))!)
  line.state.turns.sessions.set('s', { turns: beside } as never)
  for (let i = 0; i < 3 * MOST_DROPPED; i += 1) line.scored(long(2e6 + i, 2800), 7, { subject: 'u' })
  const sealed = line.seal(options)
  assert.ok(sealed && sealed.items.length > MOST_ITEMS + 100, `${sealed?.items.length} items`)
  assert.ok(sealed.dropped.length > 50)
  assert.ok(line.bytes < MAX_RECORD_BYTES - (1 << 20), `${line.bytes} bytes`)
  const dropped = sealed.dropped.reduce((sum, { turn, reason }) => sum + Buffer.byteLength(turn + reason), 0)
  assert.ok(dropped <= MOST_DROPPED_BYTES)
  line.scored(long(5e6, 4000), 0)
  assert.ok(!line.state.pending.get('0')?.has(long(5e6, 4000)), 'one that is called too much is in no batch')
})

test('a scored turn whose own record has not been read is in no batch, and in no other\'s way', () => {
  const line = new Line()
  const event: Event = {
    type: 'TurnScored', turn: 's.1', session: 's', policy: 'policy', version: 0, subject: 'u', verdicts: [], cause: 'c',
    rank: null, at: 2, reward: 1, judge: 'j', hint: null, hintJudge: null,
  }
  line.read(event)
  assert.deepEqual([...line.state.pending.keys()], ['unread'])
  const options = { ...OPTIONS, batchSize: 1 }
  assert.equal(decide(line.state, options, 9).do, 'wait')
  line.scored('s.2', 0)
  assert.deepEqual(line.seal(options)?.items.map(({ turn }) => turn), ['s.2'])
  assert.deepEqual([...line.state.pending.keys()], ['unread'])
})
