import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { startPostgres, startProjections } from '../index.ts'
import { dashboardHistory } from '../../../../bench/dashboard/history.ts'
import { temporaryFolder } from '../../../../test/kit/database.ts'
import { records } from '../../../../test/kit/projected-history.ts'
import { stepFor } from './learning.ts'
import { openReadModel } from './read-model.ts'

type Score = { version: number; subject: string; session: string; at: number; reward: number | null } & {
  judge: string | null
  reason: string | null
  hinted: boolean
}

const mean = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, one) => sum + one, 0) / values.length
const tally = (names: readonly (string | null)[]): Record<string, number> =>
  Object.fromEntries(
    [...Map.groupBy(names, String)].filter(([name]) => name !== 'null').map(([name, all]) => [name, all.length]),
  )
const close = (found: number | null, expected: number | null): void =>
  assert.ok(found === expected || Math.abs((found ?? Infinity) - (expected ?? Infinity)) < 1e-9, `${found} ${expected}`)

test('an interval is the shortest of which at most 120 are in the history', () => {
  assert.deepEqual([0, 1_200_000, 1_210_000, 35 * 86_400_000, 10 * 365 * 86_400_000].map(stepFor), [
    10,
    10,
    60,
    86_400,
    Math.ceil((10 * 365 * 86_400) / 120),
  ])
})

test('figures of learning are those of the records', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const log = openMemoryLog()
  const model = openReadModel(postgres.reader, 'policy', () => performance.now())
  t.after(() => model.close())
  const history = [...dashboardHistory({ turns: 900, versions: 20 })]
  await log.append(records(history))
  const projections = startProjections({ log, connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()

  const inForce = new Map<string, Score>()
  const keyOf = new Map<string, string | null>()
  const batches = new Map<number, { at: number; items: number; reasons: string[]; version: number | null }>()
  let sealed = 0
  for (const event of history) {
    if (event.type === 'TurnCaptured' || event.type === 'TurnAborted') keyOf.set(event.session, event.key)
    else if (event.type === 'TurnScored' || event.type === 'ScoreRevised')
      inForce.set(event.turn, { ...event, reason: null, hinted: event.hint !== null })
    else if (event.type === 'TurnSkipped')
      inForce.set(event.turn, { ...event, reward: null, judge: null, hinted: false })
    else if (event.type === 'BatchSealed') {
      sealed = event.number
      const reasons = event.dropped.map(({ reason }) => reason)
      batches.set(sealed, { at: event.at, items: event.items.length, reasons, version: null })
    } else if (event.type === 'VersionPublished') batches.get(sealed)!.version = event.number
  }
  const scores = [...inForce.values()]
  const found = await model.learning()
  const same = (figures: (typeof found.by_version)[number] | (typeof found.times)[number], of: Score[]): void => {
    const rewards = of.flatMap(({ reward }) => reward ?? [])
    assert.deepEqual(
      [figures.scored, figures.skipped, figures.hinted],
      [rewards.length, of.length - rewards.length, of.filter(({ hinted }) => hinted).length],
    )
    close(figures.reward, mean(rewards))
    assert.deepEqual(figures.reasons, tally(of.map(({ reason }) => reason)))
  }
  assert.equal(found.by_version.length, 21)
  for (const figures of found.by_version) {
    same(
      figures,
      scores.filter(({ version }) => version === figures.version),
    )
    const batch = [...batches.values()].find(({ version }) => version === figures.version)
    assert.deepEqual([figures.used, figures.dropped], [batch?.items ?? 0, tally(batch?.reasons ?? [])])
  }
  const span = scores.map(({ at }) => at)
  assert.equal(found.step, stepFor(Math.max(...span) - Math.min(...span)))
  assert.ok(found.times.length > 20 && found.times.length <= 122)
  const within = (at: string) => {
    const [from, to] = [Date.parse(at), Date.parse(at) + 1_000 * found.step]
    return (one: { at: number }): boolean => one.at >= from && one.at < to
  }
  for (const figures of found.times) {
    const own = scores.filter(within(figures.at))
    same(figures, own)
    assert.deepEqual(figures.judges, tally(own.map(({ judge }) => judge)))
    const parts = own.flatMap(({ reward }) => (reward === null ? [] : Math.min(4, Math.floor(((reward + 1) / 2) * 5))))
    assert.deepEqual(
      figures.rewards,
      [0, 1, 2, 3, 4].map((part) => parts.filter((one) => one === part).length),
    )
    const own_batches = [...batches.values()].filter(within(figures.at))
    assert.deepEqual(figures.dropped, tally(own_batches.flatMap(({ reasons }) => reasons)))
  }
  const callers = (of: (score: Score) => string | null): unknown[] =>
    [...Map.groupBy(scores, of)]
      .map(([name, own]) => [name, own.length, new Set(own.map(({ session }) => session)).size])
      .toSorted((a, b) => Number(b[1]) - Number(a[1]) || (String(a[0]) < String(b[0]) ? -1 : 1))
  const curvesOf = (of: (score: Score) => string | null): unknown[] =>
    [...Map.groupBy(scores, of)]
      .toSorted(([a, all], [b, more]) => more.length - all.length || (String(a) < String(b) ? -1 : 1))
      .slice(0, 20)
      .map(([name, own]) => [
        name,
        [...Map.groupBy(own, ({ at }) => found.times.find(({ at: begins }) => within(begins)({ at }))!.at)]
          .map(([at, all]): [number, number[]] => [Date.parse(at), all.flatMap(({ reward }) => reward ?? [])])
          .filter(([, rewards]) => rewards.length > 0)
          .toSorted(([a], [b]) => a - b)
          .map(([at, rewards]) => [at, Number(mean(rewards)!.toFixed(4)), rewards.length]),
      ])
  const drawn = (curves: typeof found.key_curves): unknown[] => curves.map(({ name, points }) => [name, points])
  assert.deepEqual(
    drawn(found.subject_curves),
    curvesOf(({ subject }) => subject),
  )
  assert.deepEqual(
    drawn(found.key_curves),
    curvesOf(({ session }) => keyOf.get(session) ?? null),
  )
  assert.ok(found.subject_curves.length === 20 && found.key_curves.length > 1)
  const shown = (rows: typeof found.keys): unknown[] => rows.map(({ name, count, sessions }) => [name, count, sessions])
  assert.deepEqual(
    shown(found.subjects),
    callers(({ subject }) => subject),
  )
  assert.deepEqual(
    shown(found.keys),
    callers(({ session }) => keyOf.get(session) ?? null),
  )
  assert.ok(found.keys.length > 1 && found.judges.length > 1)
})

test('without a score there are no figures', { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder()
  const postgres = await startPostgres({ folder: folder.path })
  t.after(() => postgres.stop())
  const projections = startProjections({ log: openMemoryLog(), connection: postgres.owner })
  await projections.caughtUp()
  await projections.stop()
  const model = openReadModel(postgres.reader, 'policy', () => performance.now())
  t.after(() => model.close())
  assert.deepEqual(await model.learning(), {
    step: 10,
    times: [],
    by_version: [],
    judges: [],
    subjects: [],
    keys: [],
    subject_curves: [],
    key_curves: [],
  })
})
