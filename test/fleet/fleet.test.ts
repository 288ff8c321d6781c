import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { turn } from '../kit/projected-history.ts'
import { DAY_MS, GAPS, realMsUntil, simulatedAt, simulatedDay } from '../../bench/fleet/day.ts'
import { countsOf, enter, initialLedger, isScored, recallOf, type Answered } from '../../bench/fleet/ledger.ts'
import { rowsOf, type Measured } from '../../bench/fleet/report.ts'
import { costAt, errorAt, fit, fleetOf, type Cost } from '../../bench/fleet/model.ts'

test('a day is a function of its seed, has every gap in its share, and ends within 24 hours', () => {
  const settings = { conversations: 2_000, turns: 4, seed: 3 }
  const day = simulatedDay(settings)
  deepEqual(simulatedDay(settings), day)
  ok(JSON.stringify(simulatedDay({ ...settings, seed: 4 })) !== JSON.stringify(day))
  equal(day.length, 2_000)
  const said = day.flatMap(({ turns }) => turns)
  equal(said.length, 8_000)
  for (const { turns } of day) {
    equal(turns[0]?.gap, null)
    for (const [i, { at, gap }] of turns.entries()) {
      ok(at >= 0 && at < DAY_MS, `${at}`)
      const kind = GAPS.find(({ name }) => name === gap)
      const waited = at - (turns[i - 1]?.at ?? 0)
      if (kind) ok(waited >= kind.from * 0.999 && waited <= kind.to * 1.001, `${gap}: ${waited}`)
    }
  }
  for (const { name, share } of GAPS)
    ok(Math.abs(said.filter(({ gap }) => gap === name).length / 6_000 - share) < 0.03, name)
  const named = day.filter(({ session }) => session !== null).length
  ok(named > 320 && named < 480, `${named} of 2000 name their session`)
})

test('a simulated clock runs `speed` times as fast, and says how long to wait for a time', () => {
  const clock = { realStart: 1_000, simulatedStart: 500_000, speed: 1440 }
  equal(simulatedAt(clock, 1_000), 500_000)
  equal(simulatedAt(clock, 61_000), 500_000 + DAY_MS)
  equal(realMsUntil(clock, 500_000 + DAY_MS, 1_000), 60_000)
  equal(realMsUntil(clock, 500_000, 2_000), 0)
})

const answered = (name: string, session: string, rest: Partial<Answered> = {}): Answered => ({
  turn: turn({ session, name, says: 'yes' }).turn,
  session,
  follows: null,
  gap: null,
  named: false,
  ...rest,
})

test('the ledger counts what the log lost, doubled or never scored, and continuations in another session', () => {
  const ledger = initialLedger()
  const first = answered('1', 'a')
  const continued = answered('2', 'a', { follows: first.turn, gap: 'within a minute' })
  const elsewhere = answered('3', 'b', { follows: first.turn, gap: 'within a minute' })
  const lost = answered('4', 'a', { follows: first.turn, gap: 'within an hour' })
  for (const [name, session] of [
    ['1', 'a'],
    ['2', 'a'],
    ['2', 'a'],
    ['3', 'b'],
    ['5', 'c'],
  ] as const)
    enter(ledger, turn({ session, name, says: 'yes' }))
  ok(!isScored(ledger, 4))
  const all = [first, continued, elsewhere, lost]
  deepEqual(countsOf(ledger, all), {
    answered: 4,
    lost: 1,
    doubled: 1,
    unknown: 1,
    aborted: 0,
    unscored: 4,
    scoredAgain: 0,
  })
  deepEqual(
    recallOf(
      ledger,
      all,
      GAPS.map(({ name }) => name),
    ),
    [
      { what: 'unnamed, within a minute', continuations: 2, recalled: 1, recall: 0.5 },
      { what: 'unnamed, within an hour', continuations: 1, recalled: 0, recall: 0 },
    ],
  )
})

const close = (a: number, b: number): void => ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`)

test('the model fitted on one and two processes gives back the cost from which the points were made', () => {
  const cost: Cost = { own: 0.8, others: 0.06, idle: 4 }
  const point = (processes: number, perSecond: number) => ({
    processes,
    perSecond,
    cpuMs: costAt(cost, processes, perSecond),
  })
  close(costAt(cost, 4, 100), 0.8 + 3 * 0.06 + 0.16)
  const fitted = fit(point(1, 100), point(2, 90), 4)
  close(fitted.own, 0.8)
  close(fitted.others, 0.06)
  close(errorAt(fitted, point(4, 110)), 0)
  close(errorAt(fitted, { ...point(4, 110), cpuMs: point(4, 110).cpuMs * 2 }), -0.5)
})

test('on paper twenty gateways spend on each other what the issue computed, and the window ends after seconds', () => {
  const single: Cost = { own: 0.1, others: 0, idle: 0 }
  const fleet = fleetOf(
    {
      gateway: { own: 0.84, others: 0.059, idle: 0 },
      scorer: { own: 0.57, others: 0.081, idle: 0 },
      trainer: single,
      publisher: single,
      projections: single,
    },
    {
      gateways: 20,
      perGateway: 50,
      snapshotBytes: 1_000,
      limits: { nameBytes: 11_000_000, nameDays: 7, turnBytes: 110, scorers: 8 },
    },
  )
  equal(fleet.turnsPerSecond, 1_000)
  close(fleet.gatewayOwnCores, 0.042)
  close(fleet.gatewayOthersCores, 0.05605)
  close(fleet.gatewayMsPerTurn, 0.84 + 19 * 0.059)
  close(fleet.againstOne, (0.84 + 19 * 0.059) / 0.84)
  equal(fleet.scorers, 8)
  close(fleet.scorerCores, 0.125 * 0.57 + 0.875 * 0.081)
  close(fleet.trainerCores, 0.1)
  close(fleet.snapshotGBADay, 86.4)
  equal(fleet.recognisedSeconds, 100)
})

test('the tables divide what was measured into own and other turns, and state the error of the model', () => {
  const cost: Cost = { own: 0.8, others: 0.1, idle: 5 }
  const used = (cpuMs: number, processes: number) =>
    new Map(
      (['gateway', 'scorer', 'trainer', 'publisher', 'projections'] as const).map((name) => {
        const count = name === 'gateway' || name === 'scorer' ? processes : 1
        const each = Array.from({ length: count }, () => (count === 1 && processes > 1 ? cpuMs : cpuMs / processes))
        return [name, { cpuMs: each, megabytes: each.map(() => 300), writtenBytes: each.map(() => 1_000_000) }] as const
      }),
    )
  const stack = (gateways: number): Measured => ({
    gateways,
    rounds: [90, 100, 110].map((share) => ({
      turns: 1_000,
      seconds: 10,
      load: 3,
      used: used((share / 100) * 1_000 * costAt(cost, gateways, 100), gateways),
    })),
    idle: { turns: 0, seconds: 2, load: 3, used: used(2 * cost.idle * gateways, gateways) },
    snapshotBytes: new Map([['gateway', Array.from({ length: gateways }, () => 4e6)]]),
    backlog: new Map([['gateway', 0.05]]),
    turnsOnLog: 4_000,
    counts: { answered: 4_000, lost: 0, doubled: 0, unknown: 0, aborted: 0, unscored: 0, scoredAgain: 0 },
    refused: 0,
    recall: [],
  })
  const rows = rowsOf([1, 2, 4].map(stack)) as unknown as Record<string, unknown>[]
  deepEqual(
    rows.find(({ service, gateways }) => service === 'gateway' && gateways === 4),
    {
      service: 'gateway',
      gateways: 4,
      processes: 4,
      cpuMs: 1.3,
      least: 1.17,
      most: 1.43,
      own: 0.8,
      others: 0.3,
      idle: 0.2,
      megabytes: 300,
      snapshotMB: 4,
      writtenKBATurn: 1,
    },
  )
  deepEqual(
    rows.find(({ service, predicted }) => service === 'gateway' && predicted !== undefined),
    {
      service: 'gateway',
      ownMs: 0.8,
      othersMs: 0.1,
      idleMsPerSecond: 5,
      readingMs: 0.05,
      predicted: 1.3,
      measured: 1.3,
      error: 0,
    },
  )
  const paper = rows.filter(({ reading }) => reading !== undefined)
  deepEqual(
    paper.map(({ reading, gateways, othersShare }) => [reading, gateways, othersShare]),
    [
      ['at the measured rate', 20, 0.679],
      ['at the measured rate', 200, 0.957],
      ['in full batches', 20, 0.514],
      ['in full batches', 200, 0.917],
    ],
  )
})
