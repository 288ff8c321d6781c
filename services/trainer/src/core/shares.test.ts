/** The share of a batch that one API key or one subject can have, and the value of constant praise. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { updateLine, type BatchSealed, type Settings } from '@instar/events'
import { auditBatches } from './audit.ts'
import { evolveAudit, initialAudit } from './audit-state.ts'
import { advantages, ALL_TURNS, RULES } from './baseline.ts'
import { countWaiting } from './batch.ts'
import { decide } from './decide.ts'
import { idOf, Line, OPTIONS } from '../../../../test/kit/trainer-line.ts'

/** `count` turns of a key, each of its own subject unless `subject` is given. */
type TurnOptions = { version?: number; at?: number; subject?: string }
const addTurns = (
  line: Line,
  key: string | null,
  count: number,
  { version = 0, at = 5, subject }: TurnOptions = {},
): void => {
  for (let i = 0; i < count; i += 1) {
    const id = idOf(line.offset)
    line.scored(id, version, { key, finishedAt: at, subject: subject ?? id })
  }
}
/** Twenty requests of a key with this many candidates, one of them shown. */
const addCandidates = (line: Line, key: string, candidates: number): void => {
  for (let request = 0; request < 20; request += 1) {
    const session = `${key}${request}`
    const ids = Array.from({ length: candidates }, (_, candidate) => `${session}.${candidate}`)
    for (const [candidate, id] of ids.entries()) {
      line.scored(id, 0, {
        key,
        session,
        group: session,
        candidate,
        candidates,
        shown: candidate === 0,
        finishedAt: 5,
        subject: id,
      })
    }
    const turns = ids.map((id) => line.state.turns.turns.get(id)!)
    line.state.turns.sessions.set(session, { session, turns, byGroup: new Map([[session, turns]]) } as never)
  }
}
const keysOf = (line: Line, sealed: BatchSealed | null): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const { turn } of sealed?.items ?? []) {
    const key = line.state.turns.turns.get(turn)?.key ?? 'none'
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}

test('96 turns of one key with changing subjects are at most half of a batch, and wait while there are no others', () => {
  const line = new Line()
  addTurns(line, 'b', 20)
  addTurns(line, 'a', 96)
  assert.deepEqual(keysOf(line, line.seal()), { b: 8, a: 8 })
  line.publish()
  assert.deepEqual(keysOf(line, line.seal()), { b: 8, a: 8 })
  line.publish()
  assert.deepEqual(decide(line.state, OPTIONS, 9), { do: 'wait', why: 'share' })
  assert.deepEqual(countWaiting(line.state, OPTIONS, 9), { usable: 84, held: 72 })
  addTurns(line, 'b', 4, { version: 2 })
  assert.deepEqual(keysOf(line, line.seal()), { b: 8, a: 8 })
})

test('a single key, or a user without keys, fills a batch alone', () => {
  for (const key of ['a', null]) {
    const line = new Line()
    addTurns(line, key, 16, { subject: 'u' })
    assert.deepEqual(keysOf(line, line.seal()), { [key ?? 'none']: 16 })
  }
})

test('a key without recent turns limits no other, and with keyShare 1 none does', () => {
  const line = new Line()
  addTurns(line, 'b', 1, { at: 5 })
  addTurns(line, 'a', 40, { at: 1500 })
  assert.equal(line.seal(OPTIONS, 1005), null)
  assert.deepEqual(keysOf(line, line.seal({ ...OPTIONS, keyShare: 1 }, 1005)), { a: 15, b: 1 })
  line.publish()
  assert.deepEqual(keysOf(line, line.seal(OPTIONS, 1006)), { a: 16 })
})

test('of a request with more candidates than the share of its key a batch takes a part, the next one another', () => {
  const line = new Line()
  addCandidates(line, 'a', 16)
  addTurns(line, 'b', 50)
  const [first, second] = [line.seal(), (line.publish(), line.seal())]
  for (const sealed of [first, second]) assert.deepEqual(keysOf(line, sealed), { a: 8, b: 8 })
  const sessions = [first, second].flatMap((sealed) => sealed!.items.filter(({ session }) => session.startsWith('a')))
  assert.equal(new Set(sessions.map(({ turn }) => turn)).size, 16)
})

test('many keys take turns', () => {
  const line = new Line()
  addTurns(line, 'a', 500)
  for (const key of ['b', 'c', 'd']) addTurns(line, key, 4)
  assert.deepEqual(keysOf(line, line.seal()), { a: 4, b: 4, c: 4, d: 4 })
})

test('turns of a subject beyond its share follow the others of its key and fill what they leave', () => {
  const line = new Line()
  addTurns(line, null, 100, { subject: 'frequent' })
  addTurns(line, null, 5, { subject: 'rare' })
  const sealed = line.seal()
  assert.deepEqual(Map.groupBy(sealed!.items, ({ subject }) => subject).get('rare')?.length, 5)
  line.publish()
  assert.deepEqual(new Set(line.seal()?.items.map(({ subject }) => subject)), new Set(['frequent']))
})

test('two keys with enough turns fill a batch, whatever its size, the share and the candidates', () => {
  for (const [batchSize, keyShare] of [
    [5, 0.5],
    [16, 0.25],
    [16, 0.1],
  ] as const) {
    const line = new Line()
    addTurns(line, 'a', 50)
    addTurns(line, 'b', 50)
    const counts = keysOf(line, line.seal({ ...OPTIONS, batchSize, batchMax: batchSize, keyShare }))
    assert.deepEqual(counts, { a: Math.ceil(batchSize / 2), b: Math.floor(batchSize / 2) }, `${batchSize} ${keyShare}`)
  }
  for (const candidates of [3, 5, 7]) {
    const line = new Line()
    for (const key of ['a', 'b']) addCandidates(line, key, candidates)
    const counts = keysOf(line, line.seal())
    assert.equal(counts.a! % candidates, 0)
    assert.equal(counts.b! % candidates, 0)
    assert.ok(Math.max(counts.a!, counts.b!) < 8 + candidates, JSON.stringify(counts))
  }
})

test('a key whose requests exceed its share has at most one more in a batch and still waits for others', () => {
  const line = new Line()
  addCandidates(line, 'a', 3)
  addTurns(line, 'b', 1)
  assert.equal(line.seal(), null)
  addTurns(line, 'b', 6)
  assert.deepEqual(keysOf(line, line.seal({ ...OPTIONS, batchSize: 14, batchMax: 14 })), { a: 9, b: 7 })
})

test('a key with thousands of turns of one subject leaves other keys their part of those that a decision examines', () => {
  const line = new Line()
  addTurns(line, 'a', 5000, { subject: 'same' })
  addTurns(line, 'b', 50, { subject: 'same' })
  assert.deepEqual(keysOf(line, line.seal()), { a: 8, b: 8 })
})

test('the cost of a decision does not depend on the number of turns beyond the share of a key or subject', () => {
  const costs = [100, 20_000].map((count) => {
    const line = new Line()
    addTurns(line, 'a', count)
    addTurns(line, 'b', 8)
    line.lookups = 0
    assert.ok(line.seal())
    line.publish()
    line.lookups = 0
    assert.deepEqual(decide(line.state, OPTIONS, 9), { do: 'wait', why: 'share' })
    const held = line.lookups
    const other = new Line()
    addTurns(other, null, count, { subject: 'frequent' })
    other.lookups = 0
    assert.ok(other.seal())
    return { held, subject: other.lookups }
  })
  assert.deepEqual(
    costs.map(({ held }) => held),
    [0, 0],
  )
  assert.ok(costs[1]!.subject < 10_000, `${costs[1]!.subject} look-ups`)
})

test('the advantage of constant praise by a key falls to zero, whatever subjects it names', () => {
  const largestAdvantages = (rules: number): number[] => {
    let baselines = new Map<string, { value: number; count: number }>()
    return Array.from({ length: 4 }, (_, batch) => {
      const eight = Array.from({ length: 8 }, (_, i) => ({ i, group: `${batch} ${i}` }))
      const items = eight.map(({ group }) => ({ subject: group, key: 'a', group, reward: 1 }))
      const others = eight.map(({ i, group }) => ({ subject: 'b', key: 'b', group: `b ${group}`, reward: i % 2 }))
      const { items: valued, after } = advantages([...items, ...others], baselines, rules)
      baselines = new Map([...baselines, ...after.map(({ subject, ...mean }) => [subject, mean] as const)])
      return Math.max(...valued.slice(0, 8).map(({ advantage }) => advantage))
    })
  }
  // By hand: the key begins at 8/(2 + 8) = 0.8, a subject at (2 · 0.8 + 1)/3; eight turns later the key is at 1 − 0.2 ·
  // 0.9^8.
  assert.ok(Math.abs(largestAdvantages(2)[0]! - (1 - 2.6 / 3)) < 1e-12)
  assert.ok(Math.abs(largestAdvantages(2)[1]! - (1 - (2 * (1 - 0.2 * 0.9 ** 8) + 1) / 3)) < 1e-12)
  assert.ok(largestAdvantages(2)[3]! < 0.02, largestAdvantages(2).join())
  assert.ok(largestAdvantages(1)[3]! > 0.2, largestAdvantages(1).join())
})

test('the means of keys and subjects are stored together, and a known subject has its own', () => {
  const known = new Map([['s', { value: 0.25, count: 3 }]])
  const { items, after } = advantages([{ subject: 's', key: 'k', group: '1', reward: 1 }], known)
  assert.deepEqual(items, [{ baseline: 0.25, advantage: 0.75 }])
  assert.deepEqual(
    after.map(({ subject, count }) => [subject, count]),
    [
      ['s', 4],
      ['key k', 1],
      [ALL_TURNS, 1],
    ],
  )
})

test('a batch is audited by the rules it was sealed under, current or earlier', () => {
  for (const settings of [{ rules: RULES }, {}] as Settings[]) {
    const line = new Line()
    addTurns(line, 'a', 8, { subject: 'u' })
    addTurns(line, 'b', 8)
    line.seal({ ...OPTIONS, settings })
    const audit = initialAudit('policy')
    const { turns, updates, weights } = line.state
    Object.assign(audit, { turns, weights })
    for (const [turn, { score }] of line.state.scores.turns) {
      const { session, reward } = line.state.scores.turns.get(turn)!
      const scored = { type: 'TurnScored', turn, session, policy: 'policy', reward, hint: null } as never
      const place = { topic: 'scores', key: 'policy', partition: 0, offset: 0, timestamp: 1 } as const
      evolveAudit(audit, { id: score, ...place, event: scored })
    }
    const { id, sealed } = updateLine(updates, 'policy').batches[0]!
    evolveAudit(audit, { id, topic: 'updates', key: 'policy', partition: 0, offset: 0, timestamp: 1, event: sealed })
    assert.equal(
      sealed.baselines.some(({ subject }) => subject.startsWith('key ')),
      'rules' in settings,
    )
    assert.deepEqual(
      [...auditBatches(audit)].map(({ difference }) => difference),
      [null],
    )
  }
})
