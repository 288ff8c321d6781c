/** A slow judge is asked about no more turns than the trainer takes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { type BatchSealed, type Event, type TurnCaptured } from '@instar/events'
import { captured, feedback } from '../../../../test/kit/scored-history.ts'
import { Rig, thanked, versions } from '../../../../test/kit/slow-judge.ts'
import { Backlog, type Shed } from './backlog.ts'
import type { JudgeRequest } from './decide.ts'
import { WAITING_MS } from './waiting.ts'

/** Four scored turns may wait. */
const FOUR = { batchSize: 2, batchMax: 2, waitingBatches: 2, staleness: 1, backlog: 6 }
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)
const turns = (from: number, to: number, version = 1): Event[] => range(from, to).flatMap((n) => thanked(n, version))
const idOf = (n: number, version = 1): string => thanked(n, version)[0]!.turn

const batch = (...taken: number[]): BatchSealed => ({
  type: 'BatchSealed',
  prev: '',
  policy: 'policy',
  number: 1,
  parent: { version: 1, adapter: null, state: null },
  items: taken.map((n) => ({
    turn: idOf(n),
    record: 'r',
    session: `s${n}`,
    score: 's',
    subject: 'u',
    version: 1,
    reward: 1,
    baseline: 0,
    advantage: 1,
    hint: null,
  })),
  dropped: [],
  baselines: [],
  seed: 1,
  loss: 'hybrid',
  settings: {},
  at: 1,
})

/** Answers the judge's requests until it has been asked `count` times. */
const judgeUntil = async (rig: Rig, count: number): Promise<void> => {
  while (rig.judge.asked.length < count) {
    await rig.judge.until(rig.judge.asked.length)
    rig.judge.answer()
    await rig.judge.until(rig.judge.asked.length + 1)
  }
  rig.judge.answer()
}

const settled = async (rig: Rig): Promise<void> => {
  while (!(await rig.scorer!.settled())) await setImmediate()
}

/** A rig of which four of ten turns are scored, and six are held. */
const heldRig = async (): Promise<Rig> => {
  const rig = new Rig()
  await rig.say(...versions(1), ...turns(0, 6))
  await rig.start([rig.judge], FOUR)
  await judgeUntil(rig, 4)
  await rig.scored(4)
  await rig.say(...turns(6, 10))
  await settled(rig)
  return rig
}

test('a judge is asked about the newest turns until enough scored ones wait, and goes on when a batch takes some', async () => {
  const rig = await heldRig()
  assert.deepEqual(rig.judge.asked, [5, 4, 3, 2])
  assert.deepEqual([await rig.gauge('instar_scorer_held'), await rig.gauge('instar_scored_turns_waiting')], [6, 4])
  await rig.say(...thanked(20, 1))
  await rig.scored(5)
  assert.deepEqual(rig.skipped('surplus'), [0], 'the oldest that is held has no room')
  await rig.say(batch(5, 4))
  await judgeUntil(rig, 6)
  await rig.scored(7)
  assert.deepEqual(rig.judge.asked, [5, 4, 3, 2, 20, 9])
  assert.equal(await rig.gauge('instar_turns_skipped_total{reason="surplus"}'), 1)
  await rig.scorer!.stop()
})

test('explicit feedback on a turn that is held, or that was skipped as surplus, is scored at once', async () => {
  const rig = await heldRig()
  await rig.say(...thanked(20, 1))
  await rig.scored(5)
  const rate = (n: number): Event => feedback(`s${n}`, idOf(n), -1, 900, `f${n}`)
  await rig.say(rate(0), rate(7))
  await rig.scored(7)
  assert.deepEqual(
    rig.scores
      .slice(5)
      .map((event) => [event.type, event.turn, 'reward' in event && event.reward])
      .sort(([a], [b]) => String(a).localeCompare(String(b))),
    [
      ['ScoreRevised', idOf(0), -1],
      ['TurnScored', idOf(7), -1],
    ],
  )
  assert.deepEqual(rig.judge.asked, [5, 4, 3, 2])
  await settled(rig)
  await rig.scorer!.stop()
})

test('while no batch is sealed, what waits is renewed after ten minutes, with the newest turns', async () => {
  const rig = await heldRig()
  rig.clock += WAITING_MS
  await rig.say(...thanked(20, 1))
  await judgeUntil(rig, 8)
  await rig.scored(8)
  assert.deepEqual(rig.judge.asked.slice(4), [20, 9, 8, 7])
  await rig.scorer!.stop()
})

test('a new version takes held turns that are stale then out of the backlog', async () => {
  const rig = new Rig()
  const [started, one, two] = versions(2)
  await rig.say(started!, one!, ...turns(0, 10))
  await rig.start([rig.judge], { ...FOUR, staleness: 0, backlog: 100 })
  await judgeUntil(rig, 4)
  await rig.scored(4)
  await rig.say(two!)
  await rig.scored(10)
  assert.deepEqual(rig.skipped('stale'), range(0, 6))
  await rig.say(...thanked(20, 2))
  await judgeUntil(rig, 5)
  assert.equal(rig.judge.asked.at(-1), 20)
  await rig.scorer!.stop()
})

test('all are judged on a line without updates, without a limit, and where the judge is quick', async () => {
  const [started] = versions(0)
  for (const [line, config] of [
    [[started!], {}],
    [versions(1), { waitingBatches: 0 }],
  ] as const) {
    const rig = new Rig()
    await rig.say(...line, ...turns(0, 6, line.length - 1))
    await rig.start([rig.judge], { ...FOUR, ...config })
    await judgeUntil(rig, 6)
    await rig.scored(6)
    assert.deepEqual(rig.judge.asked, [5, 4, 3, 2, 1, 0])
    await rig.scorer!.stop()
  }
  const rig = new Rig()
  await rig.say(...versions(1), ...turns(0, 50))
  const quick = { id: 'quick', needsNextState: true, quick: true, judge: () => ({ value: 1, note: '', hint: null }) }
  await rig.start([quick], FOUR)
  await rig.scored(50)
  assert.deepEqual(new Set(rig.scores.map(({ type }) => type)), new Set(['TurnScored']))
  await rig.scorer!.stop()
})

test('turns of a task, and imported ones, are judged whatever waits', async () => {
  const rig = await heldRig()
  await rig.say(...thanked(20, 1, 'policy', { task: 'sums' }), ...thanked(21, 7))
  await judgeUntil(rig, 6)
  await rig.scored(6)
  assert.deepEqual(
    rig.judge.asked.slice(4).sort((a, b) => a - b),
    [20, 21],
  )
  await rig.scorer!.stop()
})

const ended = (n: number): Event => ({
  type: 'SessionClosed',
  session: `s${n}`,
  open: [],
  why: 'client',
  at: 900,
  outcome: 1,
})

test('an outcome of their session releases held turns, and its scored turns do not wait for a batch of their own', async () => {
  const rig = await heldRig()
  await rig.say(ended(7))
  await judgeUntil(rig, 5)
  await rig.scored(5)
  await settled(rig)
  assert.deepEqual(rig.judge.asked.slice(4), [7])
  assert.deepEqual([await rig.gauge('instar_scorer_held'), await rig.gauge('instar_scored_turns_waiting')], [5, 4])
  await rig.say(ended(5))
  await judgeUntil(rig, 6)
  await rig.scored(6)
  await settled(rig)
  assert.deepEqual(rig.judge.asked.slice(5), [9], 'a scored turn of the ended session has left')
  assert.equal(await rig.gauge('instar_scored_turns_waiting'), 4)
  await rig.scorer!.stop()
})

test('the turns of a key that is heard less are judged beside those of one that fills the room', async () => {
  const rig = new Rig()
  const of = (n: number, key: string): TurnCaptured[] => thanked(n, 1, 'policy', { key, subject: key })
  await rig.say(...versions(1), ...range(0, 8).flatMap((n) => of(n, 'heavy')))
  await rig.start([rig.judge], { ...FOUR, backlog: 100 })
  await judgeUntil(rig, 4)
  await rig.scored(4)
  await rig.say(...range(10, 13).flatMap((n) => of(n, 'light')), ...range(20, 30).flatMap((n) => of(n, 'heavy')))
  await judgeUntil(rig, 6)
  await rig.scored(6)
  assert.deepEqual(rig.judge.asked.slice(0, 4), [7, 6, 5, 4])
  const others = rig.judge.asked.slice(4)
  assert.deepEqual([others.length, others.filter((n) => n >= 10 && n < 13).length], [2, 2])
  await settled(rig)
  await rig.scorer!.stop()
})

const request = (turn: string, shown: string | null = null): JudgeRequest => ({
  do: 'judge',
  ask: 1,
  turn,
  next: 'n',
  shown,
  feedback: null,
  cause: 'c',
  discarded: false,
})
const names = (shed: readonly Shed[]): string[] => shed.map((one) => `${one.request.turn} ${one.why}`)

test('beyond the limit the oldest that is held is shed first, and candidates of one answer together', () => {
  const backlog = new Backlog(4)
  backlog.push(request('a'), 1)
  backlog.push(request('b', 'a'), 1)
  backlog.push(request('other'), 1)
  backlog.push(request('c'), 3)
  assert.deepEqual(names(backlog.push(request('d'), 2)), ['a overloaded', 'b overloaded'])
  const held = [backlog.newest()!, backlog.newest()!]
  for (const entry of held) backlog.hold(entry)
  assert.deepEqual([backlog.size, backlog.heldCount], [3, 2])
  backlog.push(request('e'), 5)
  assert.deepEqual(names(backlog.push(request('f'), 6)), ['d surplus'])
  backlog.release()
  const order = Array.from({ length: 4 }, () => backlog.newest()?.request.turn)
  assert.deepEqual([order, backlog.size], [['f', 'e', 'c', 'other'], 0])
})

test('of the candidates of a request all are judged or none', async () => {
  const rig = new Rig()
  rig.judge.needsNextState = false
  const [shown, next] = thanked(20, 1, 'policy', { candidates: 3 })
  const beside = [1, 2].map((candidate): Event => {
    const answer = String(100 + candidate)
    const said = { messages: [{ role: 'user', content: 'hi' }], at: 50 + candidate, name: answer } as const
    const place = { session: 's20', version: 1, group: shown!.group, candidate, candidates: 3 }
    return { ...captured({ ...said, ...place, answer }), type: 'TurnSampled' }
  })
  const candidates = [shown!, ...beside, next!]
  await rig.say(...versions(1), ...turns(0, 3))
  await rig.start([rig.judge], { ...FOUR, backlog: 100 })
  await judgeUntil(rig, 3)
  await rig.scored(3)
  await rig.say(...candidates)
  await judgeUntil(rig, 6)
  await rig.scored(6)
  assert.deepEqual(
    rig.judge.asked.slice(3).sort((a, b) => a - b),
    [20, 101, 102],
    'there was room for one',
  )
  assert.equal(await rig.gauge('instar_scorer_held'), 0)
  await rig.say(...thanked(30, 1))
  await settled(rig)
  assert.deepEqual([rig.judge.asked.length, await rig.gauge('instar_scorer_held')], [6, 1])
  await rig.scorer!.stop()
})
