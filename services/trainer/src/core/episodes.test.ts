/** Episodes: rewards of turns from their own scores and the outcome, groups of a task, and their advantages. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hintOf, type BatchSealed, type Event, type Logged, type TurnCaptured } from '@instar/events'
import { auditBatches } from './audit.ts'
import { evolveAudit, initialAudit } from './audit-state.ts'
import { hasSignal } from './batch.ts'
import { decide } from './decide.ts'
import { countEpisodes, episodeGroups, MAX_EPISODES, MAX_GROUP_TURNS } from './episodes.ts'
import { EpisodeLine, sessionOf } from '../../../../test/kit/episode-line.ts'
import { Line, OPTIONS } from '../../../../test/kit/trainer-line.ts'

const SETTINGS = { ...OPTIONS, batchSize: 4, taskEpisodes: 2, settings: { turnScoreWeight: 0.5, rules: 2 } }

const of = (sealed: BatchSealed | null, name: string): BatchSealed['items'] =>
  (sealed?.items ?? []).filter(({ session }) => session === sessionOf(name))

test('a turn of an episode waits for the outcome, its reward is outcome + weight · own score, and the batch records both', () => {
  const line = new EpisodeLine()
  line.turns('a', [1, -1, null])
  line.turns('b', [1, 1])
  assert.equal(line.seal(SETTINGS), null, 'five turns are scored, and their episodes run')
  const closing = line.end('a', -1)
  assert.equal(line.seal(SETTINGS), null, 'the other episode of the task runs')
  line.end('b', 1)
  const sealed = line.seal(SETTINGS)
  assert.deepEqual(
    of(sealed, 'a').map(({ turnScore, outcome, reward, closing: by }) => [turnScore, outcome, reward, by]),
    [
      [1, -1, -0.5, closing],
      [-1, -1, -1.5, closing],
      [null, -1, -1, closing],
    ],
  )
  assert.deepEqual(
    of(sealed, 'b').map(({ turnScore, outcome, reward }) => [turnScore, outcome, reward]),
    [
      [1, 1, 1.5],
      [1, 1, 1.5],
    ],
  )
  // The outcome's part of an advantage is the trajectory's: ±1 about the mean of the two episodes, whatever their
  // lengths.
  assert.deepEqual(
    of(sealed, 'a').map(({ advantage }) => advantage),
    of(sealed, 'a').map(({ reward, baseline }) => reward - baseline),
  )
  assert.equal(of(sealed, 'a')[2]!.baseline, 0)
  assert.equal(of(sealed, 'a')[2]!.advantage, -1)
})

test('an episode that is aborted trains nothing, also where it was scored before', () => {
  const line = new EpisodeLine()
  for (const name of ['a', 'b']) line.turns(name, [1, -1])
  line.end('a', null, 5, { discarded: true })
  line.end('b', null, 5, { discarded: true })
  assert.equal(line.seal(SETTINGS), null)
  assert.equal(line.seal({ ...SETTINGS, batchSize: 1 }, 1e9), null)
})

test('a session that closes without an outcome trains on the own scores of its turns', () => {
  const line = new EpisodeLine()
  line.turns('a', [1, -1, null, 1])
  line.end('a', null)
  const sealed = line.seal({ ...SETTINGS, batchSize: 3 })
  assert.deepEqual(
    sealed?.items.map(({ reward, turnScore, outcome, closing }) => [reward, turnScore, outcome, closing]),
    [1, -1, 1].map((reward) => [reward, reward, null, null]),
  )
})

test('a session without a task that ends with an outcome is an episode as soon as that is read', () => {
  const line = new EpisodeLine()
  line.turns('a', [1, null], { task: null })
  line.end('a', -1, 5, { task: 't' })
  line.turns('b', [null, null], { task: null })
  line.end('b', 1, 5, { task: 't' })
  assert.deepEqual(
    line.seal(SETTINGS)?.items.map(({ reward }) => reward),
    [-0.5, -1, 1, 1],
  )
})

test('a group is the episodes that began first, waits taskWaitMs for those that run, and then goes without them', () => {
  const line = new EpisodeLine()
  line.turns('slow', [1, 1], { at: 1 })
  line.turns('quick', [1, 1, 1, 1], { at: 10 })
  line.turns('later', [1, 1, 1, 1], { at: 20 })
  line.end('quick', 1, 100)
  line.end('later', -1, 100)
  const groups = (now: number): string[][] =>
    episodeGroups(line.state, [0], SETTINGS, now).ready.map(({ turns }) => [
      ...new Set(turns.map((id) => id.slice(0, 64))),
    ])
  assert.deepEqual(groups(1099), [], 'two have ended, but the first two that began are not over')
  assert.deepEqual(groups(1100), [[sessionOf('quick')], [sessionOf('later')]])
  line.end('slow', 1, 1050)
  assert.deepEqual(groups(1060), [[sessionOf('slow'), sessionOf('quick')]])
})

test('episodes of other keys and other tasks are not compared, and an episode without a task waits for none', () => {
  const line = new EpisodeLine()
  line.turns('a', [null, null], { key: 'k1' })
  line.turns('b', [null, null], { key: 'k2' })
  line.turns('c', [null, null], { task: 'other' })
  line.turns('d', [null, null], { task: '' })
  for (const name of ['a', 'b', 'c', 'd']) line.end(name, 1)
  assert.deepEqual(
    episodeGroups(line.state, [0], SETTINGS, 9).ready.map(({ turns }) => turns[0]!.slice(0, 64)),
    [sessionOf('d')],
  )
  assert.equal(countEpisodes(line.state, [0], SETTINGS, 9).waiting, 3)
})

test(`a decision examines ${MAX_EPISODES} episodes and a group has ${MAX_GROUP_TURNS} turns; what is beyond follows in later batches`, () => {
  const line = new EpisodeLine()
  for (let i = 0; i < MAX_EPISODES + 2; i += 1) {
    line.turns(`e${i}`, [null], { task: '' })
    line.end(`e${i}`, 1)
  }
  const { ready } = episodeGroups(line.state, [0], SETTINGS, 9)
  assert.deepEqual([ready.length, countEpisodes(line.state, [0], SETTINGS, 9).beyond], [MAX_EPISODES, 2])
  const long = new EpisodeLine()
  for (const name of ['a', 'b']) {
    long.turns(
      name,
      Array.from({ length: MAX_GROUP_TURNS / 2 + 1 }, () => null),
    )
    long.end(name, 1)
  }
  const half = MAX_GROUP_TURNS / 2 + 1
  assert.deepEqual(
    episodeGroups(long.state, [0], SETTINGS, 9).ready.map(({ turns }) => turns.length),
    [half, half],
    'whole episodes',
  )
  const one = new EpisodeLine()
  one.turns(
    'a',
    Array.from({ length: MAX_GROUP_TURNS + 3 }, () => null),
    { task: '' },
  )
  one.end('a', 1)
  assert.deepEqual(
    episodeGroups(one.state, [0], SETTINGS, 9).ready.map(({ turns }) => turns.length),
    [MAX_GROUP_TURNS, 3],
  )
})

test('the audit derives rewards and advantages of episodes again, and names the record that was changed', () => {
  const line = new EpisodeLine()
  line.turns('a', [1, -1, null])
  line.turns('b', [1, 1])
  const closing = line.end('a', -1)
  line.end('b', 1)
  const sealed = line.seal(SETTINGS)!
  const differences = (change: (event: Event) => Event): unknown[] => {
    const state = initialAudit('policy')
    for (const logged of line.records)
      evolveAudit(state, { ...logged, event: change(structuredClone(logged.event)) } as Logged)
    return [...auditBatches(state)].map(({ difference }) => difference && [difference.type, difference.what])
  }
  assert.equal(sealed.items.length, 5)
  assert.deepEqual(
    differences((event) => event),
    [null],
  )
  assert.deepEqual(
    differences((event) => (event.type === 'SessionClosed' && event.outcome === -1 ? { ...event, outcome: 1 } : event)),
    [['SessionClosed', `the outcome of turn ${sealed.items[0]!.turn} that batch 1 names is not on the log`]],
  )
  assert.equal(of(sealed, 'a')[0]!.closing, closing)
  const tampered = differences((event) =>
    event.type === 'BatchSealed'
      ? { ...event, items: event.items.map((item, i) => (i === 1 ? { ...item, reward: 0.25 } : item)) }
      : event,
  )
  assert.deepEqual(tampered, [['BatchSealed', (tampered[0] as string[])[1]]])
})

test('the audit knows that turns behind the end of an episode may name its task before its batch is sealed, or after', () => {
  for (const namedFirst of [true, false]) {
    const line = new EpisodeLine()
    const names = ['a', 'b']
    for (const [at, name] of names.entries()) {
      line.turns(name, [1, -1], { task: null })
      line.end(name, at === 0 ? -1 : 1)
    }
    const name = (): void => {
      for (const one of names) {
        const { event } = line.records.find(
          ({ event: { type }, key }) => type === 'TurnCaptured' && key === sessionOf(one),
        )!
        line.read({ ...(event as TurnCaptured), turn: `${sessionOf(one)}.${'9'.repeat(32)}`, task: 'later', at: 9 })
      }
    }
    if (namedFirst) name()
    const sealed = line.seal(SETTINGS)
    assert.equal(sealed?.items.length, 4)
    if (!namedFirst) name()
    const state = initialAudit('policy')
    for (const logged of line.records) evolveAudit(state, logged)
    assert.deepEqual(
      [...auditBatches(state)].map(({ difference }) => difference?.what ?? null),
      [null],
      `named ${namedFirst ? 'before' : 'after'} the batch`,
    )
  }
})

test('any order of reading topics gives the same batch', () => {
  const orders = [
    ['turns', 'scores'],
    ['scores', 'turns'],
  ]
  const line = new EpisodeLine()
  line.turns('a', [1, -1, null])
  line.turns('b', [null, null])
  line.end('a', -1)
  line.end('b', 1)
  const batches = orders.map((order) => {
    const other = new Line()
    for (const topic of order)
      for (const { event } of line.records.filter((logged) => logged.topic === topic)) other.read(event)
    const decision = decide(other.state, SETTINGS, 9)
    return decision.do === 'append' && decision.event.type === 'BatchSealed' ? decision.event.items : decision
  })
  assert.equal((batches[0] as unknown[]).length, 5)
  assert.deepEqual(
    new Set((batches[1] as { turn: string }[]).map((item) => JSON.stringify(item))),
    new Set((batches[0] as { turn: string }[]).map((item) => JSON.stringify(item))),
  )
})

test('a hint teaches where the own score is negative, whatever the outcome', () => {
  const line = new EpisodeLine()
  line.turns('a', [-1, 1], { task: '' })
  line.end('a', 1)
  const sealed = line.seal({ ...SETTINGS, batchSize: 2, loss: 'opd' })!
  assert.deepEqual(
    sealed.items.map((item) => [item.reward, hintOf(item) !== null]),
    [
      [0.5, true],
      [1.5, false],
    ],
  )
  assert.ok(hasSignal(sealed))
})

const countKeys = (line: Line, sealed: BatchSealed | null): Record<string, number> =>
  Object.fromEntries(
    [...Map.groupBy(sealed?.items ?? [], ({ turn }) => line.state.turns.turns.get(turn)?.key ?? 'none')].map(
      ([key, items]) => [key, items.length],
    ),
  )
const many = (count: number): number[] => Array.from({ length: count }, (_, i) => (i % 2 === 0 ? 1 : -1))

test('an episode longer than the share of its key is divided, and no batch has more of the key than the share', () => {
  const line = new EpisodeLine()
  line.turns('a:long', many(120), { key: 'a', task: '' })
  line.end('a:long', 1)
  for (let i = 0; i < 40; i += 1) line.turns(`b:${i}`, [i % 2], { key: 'b', task: null })
  const settings = { ...SETTINGS, batchSize: 16, batchMax: 64 }
  assert.deepEqual(countKeys(line, line.seal(settings, 100)), { a: 32, b: 32 })
  line.publish()
  assert.deepEqual(countKeys(line, line.seal(settings, 100)), { a: 9, b: 8 }, 'half of 17, rounded up')
  line.publish()
  assert.deepEqual(decide(line.state, settings, 100), { do: 'wait', why: 'share' })
  const alone = new EpisodeLine()
  alone.turns('a:long', many(120), { key: 'a', task: '' })
  alone.end('a:long', 1)
  assert.deepEqual(countKeys(alone, alone.seal(settings, 100)), { a: 120 })
})

test('groups of episodes that do not divide the share fill it', () => {
  const line = new EpisodeLine()
  for (let i = 0; i < 6; i += 1) {
    line.turns(`a:${i}`, many(5), { key: 'a', task: '' })
    line.end(`a:${i}`, i % 2 ? 1 : -1)
  }
  for (let i = 0; i < 8; i += 1) line.turns(`b:${i}`, [i % 2], { key: 'b', task: null })
  assert.deepEqual(countKeys(line, line.seal({ ...SETTINGS, batchSize: 16 }, 100)), { a: 8, b: 8 })
})

test('episodes of one key leave others their part of those that a decision examines', () => {
  const line = new EpisodeLine()
  for (let i = 0; i < 100; i += 1) line.turns(`a:open${i}`, [null], { key: 'a', task: '' })
  const add = (key: string, count: number): void => {
    for (let i = 0; i < count; i += 1) {
      line.turns(`${key}:${i}`, [1], { key, task: '' })
      line.end(`${key}:${i}`, 1)
    }
  }
  add('a', MAX_EPISODES + 100)
  add('b', 300)
  add('c', 1)
  const { ready } = episodeGroups(line.state, [0], SETTINGS, 9)
  const { waiting, beyond } = countEpisodes(line.state, [0], SETTINGS, 9)
  const of = (name: string): number => ready.filter(({ key }) => key === name).length
  assert.deepEqual([of('a'), of('b'), of('c')], [255, 256, 1])
  assert.deepEqual([waiting, beyond], [100, MAX_EPISODES + 401 - MAX_EPISODES])
})
