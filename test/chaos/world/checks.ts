/** Invariants after any fault, between the clients' ledger, the log and PostgreSQL. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { InstarError } from '@instar/events/errors'
import { readOnlyQuery } from '@instar/projections'
import { readerOf } from '@instar/projections/postgres/reader'
import type { History } from './history.ts'
import { metricsOf, type Metrics } from './metrics.ts'
import type { Ledger } from './people.ts'
import type { World } from './world.ts'

/**
 * Every answered turn is on the log once, in its session, with its text; scored or skipped once; in at most one batch.
 */
export const checkAnswered = ({ received }: Ledger, history: History): void => {
  deepEqual(history.conflicts, [])
  const answers = new Map(received.map((answer) => [answer.turn, answer]))
  equal(answers.size, received.length, 'a turn was answered twice')
  for (const { turn, session, text, version, follows } of received) {
    const fact = history.turns.get(turn)
    ok(fact, `${turn} was answered and is not on the log`)
    const { event } = fact
    equal(event.type, 'TurnCaptured', `${turn} was answered in full and is on the log as cut`)
    deepEqual([event.session, Buffer.from(event.text.bytes).toString(), event.version], [session, text, version])
    if (follows !== null) equal(session, answers.get(follows)!.session, `${turn} continues ${follows}`)
  }
}

/** Call it when all work is done. */
export const checkWork = (history: History): void => {
  deepEqual(
    history.scorable().filter((turn) => !history.scores.has(turn)),
    [],
    'turns that are neither scored nor skipped',
  )
  for (const turn of history.scores.keys()) ok(history.turns.has(turn), `a score of ${turn}, which nobody captured`)
  deepEqual(
    [...history.spent].filter(([, times]) => times > 1),
    [],
    'turns in two batches',
  )
  deepEqual(
    history.batches.map(({ event }) => event.number),
    history.batches.map((_, i) => i + 1),
  )
  const scores = new Map([...history.scores.values()].flat().map(({ id, event }) => [id, event]))
  for (const { event, outcome, verdict } of history.batches) {
    for (const item of event.items) {
      const score = scores.get(item.score)
      ok(score && score.type !== 'TurnSkipped', `batch ${event.number} names a score that does not count`)
      deepEqual([score.turn, score.reward], [item.turn, item.reward])
    }
    ok(outcome, `batch ${event.number} has no outcome`)
    if (outcome.event.type === 'UpdateComputed') ok(verdict, `update ${event.number} has no verdict`)
  }
  deepEqual(
    history.versions.map(({ number }) => number),
    history.versions.map((_, i) => i),
  )
  const verdicts = history.verdicts().map(({ event }) => event.update)
  equal(new Set(verdicts).size, verdicts.length, 'an update with two verdicts')
  for (const { fact, parent } of history.versions)
    if (fact) equal(parent, fact.event.number - 1, 'a version that does not stand on the one before it')
}

/** With the reader's login, since DATABASE_URL has that of a superuser. */
const query = async <T>(world: World, sql: string): Promise<T[]> =>
  (await readOnlyQuery(readerOf(world.databaseUrl, null), sql, { timeoutMs: 60_000 })) as T[]

/** Resolves when PostgreSQL has everything that is on the log now. */
const untilProjected = async (world: World, ms = 60_000): Promise<void> => {
  const ends = await world.log.ends(['turns', 'scores', 'updates', 'weights'])
  let behind: unknown
  for (const until = Date.now() + ms; Date.now() < until; await pause(50)) {
    let fault: unknown
    const rows = await query<{ topic: keyof typeof ends; partition: number; next_offset: number }>(
      world,
      'select topic, partition, next_offset from offsets',
    ).catch((cause: unknown) => {
      fault = cause
      return []
    })
    const wanted = Object.entries(ends).flatMap(([topic, partitions]) =>
      Object.entries(partitions).map(([partition, end]) => ({ topic, partition: Number(partition), end })),
    )
    behind = wanted.filter(
      ({ topic, partition, end }) =>
        end > (rows.find((row) => row.topic === topic && row.partition === partition)?.next_offset ?? 0),
    )
    if ((behind as unknown[]).length === 0) return
    if (fault instanceof InstarError && fault.code !== 'postgres_failed') throw fault
  }
  throw new Error(`PostgreSQL is behind the log: ${JSON.stringify(behind)}`)
}

const close = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b))

/** PostgreSQL equals the log: metrics to the last digit of a double, and the scored, batched and counted turns. */
export const checkDatabase = async (world: World, history: History): Promise<void> => {
  await untilProjected(world)
  await history.caughtUp()
  const rows = await query<Metrics>(world, `select * from version_metrics where policy = 'policy' order by version`)
  const expected = metricsOf(history)
  equal(rows.length, expected.length)
  for (const [i, wanted] of expected.entries()) {
    for (const [name, value] of Object.entries(wanted)) {
      const found = rows[i]![name] ?? null
      ok(
        typeof value === 'number' && typeof found === 'number' ? close(value, found) : value === found,
        `version ${i}, ${name}: the log says ${value}, PostgreSQL ${found}`,
      )
    }
  }
  const all = async (sql: string): Promise<string[]> =>
    (await query<{ it: string }>(world, sql)).map(({ it }) => it).toSorted()
  deepEqual(await all('select record_id as it from turns'), [...history.turns.values()].map(({ id }) => id).toSorted())
  deepEqual(
    await all('select record_id as it from all_scores'),
    [...history.scores.values()]
      .flat()
      .map(({ id }) => id)
      .toSorted(),
  )
  deepEqual(await all('select batch_id as it from all_batches'), history.batches.map(({ id }) => id).toSorted())
  deepEqual(
    await all('select batch_id || turn_id as it from all_batch_turns'),
    history.batches
      .flatMap(({ id, event }) => [...event.items, ...event.dropped].map(({ turn }) => id + turn))
      .toSorted(),
  )
  deepEqual(
    await all('select record_id as it from all_rejections'),
    history
      .verdicts()
      .filter(({ event }) => event.type === 'VersionRejected')
      .map(({ id }) => id)
      .toSorted(),
  )
}

/** No service ended without a kill. */
export const checkNoCrash = (world: World): void => {
  for (const { name, crashes } of world.services) deepEqual(crashes, [], `${name} ended by itself`)
}

/** All invariants, when all work is done. */
export const checkAll = async (world: World, history: History, ledger: Ledger): Promise<void> => {
  await history.untilSettled()
  checkAnswered(ledger, history)
  checkWork(history)
  await checkDatabase(world, history)
}

export const figuresOf = (ledger: Ledger, history: History) => ({
  answered: ledger.received.length,
  captured: history.turns.size,
  scored: history.scores.size,
  batches: history.batches.length,
  versions: history.versions.length,
  doubled: history.conflicts.length,
  repeats: history.repeats,
  late: history.late,
  failedTries: Object.fromEntries(ledger.refusals),
  longestWaitMs: Math.max(0, ...ledger.received.map(({ waitedMs }) => waitedMs)),
})
