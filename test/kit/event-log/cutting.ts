/** The part of the contract of the event log that is about cuts: of every backend that has `cut`. */
import { encodeEvent, recordId, type StateCheckpointed } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import {
  cutLog,
  isCutAway,
  partitionOf,
  type Archive,
  type CutOptions,
  type CutReport,
  type EventLog,
  type FoldedCheckpoint,
  type LogRecord,
  type Offsets,
  type Position,
} from '@instar/log'
import assert from 'node:assert/strict'
import { all, byKey, note, range, textOf, type Opened } from './harness.ts'

type Feature = (title: string, run: (opened: Opened) => Promise<void>) => void

/** Appends the record that allows the cut. */
export const allow = async (log: EventLog, starts: Offsets, record: string | null = null): Promise<void> => {
  const listed = (Object.entries(starts) as [Topic, Record<number, number>][]).flatMap(([topic, of]) =>
    Object.entries(of).map(([partition, start]) => ({ topic, partition: Number(partition), start, record })),
  )
  const cut = { archive: '/archive', manifest: 'm', checkpoints: [], who: 'test', at: 1 }
  await log.append([encodeEvent({ type: 'LogCut', starts: listed, ...cut })])
}

/** A checkpoint of all records of these topics up to now. */
export const checkpointOf = async (
  log: EventLog,
  topics: readonly Topic[] = ['turns', 'scores'],
): Promise<FoldedCheckpoint> => {
  const positions: StateCheckpointed['positions'] = []
  for (const topic of topics) {
    const from = { [topic]: (await log.starts!([topic]))[topic] }
    const last = new Map<number, LogRecord>()
    for (const record of await all(log.read(topic, { from }))) last.set(record.partition, record)
    for (const [partition, record] of last)
      positions.push({ topic, partition, next: record.offset + 1, record: recordId(record) })
  }
  const event: StateCheckpointed = {
    type: 'StateCheckpointed',
    name: `${topics.join('-')}.policy`,
    version: 1,
    digest: 'd',
    rows: 1,
    positions,
    file: 'f',
    bytes: 1,
    who: 'test',
    at: 1,
  }
  return { id: `${topics.join('-')} ${positions.length}`, event, topics }
}

/** Cuts all that the archive at `place` and the checkpoints (by default one of the whole log) have. */
export const cutAll = async (
  log: EventLog,
  { archive, place, ...changed }: { archive: Archive; place: string } & Partial<CutOptions>,
): Promise<CutReport> =>
  cutLog({
    log,
    archive,
    address: place,
    checkpoints: [await checkpointOf(log)],
    since: Infinity,
    needed: [],
    deleteUnreadable: false,
    dryRun: false,
    now: () => 1,
    observer: { onProgress: () => undefined },
    signal: new AbortController().signal,
    ...changed,
  })

/** More than two blocks of the embedded log, which is cut at the end of one. */
const ROUNDS = 600
const KEYS = 5
const IDLE = 'idle'

/** `ROUNDS` records of each of `KEYS` keys, and before them two of a key of a partition of its own. */
const filled = async (log: EventLog): Promise<{ positions: Position[]; idle: Position[] }> => {
  const partition = (key: string): number => partitionOf(key, log.partitions('turns'))
  const keys = range(1000)
    .map((i) => `k${i}`)
    .filter((key) => partition(key) !== partition(IDLE))
    .slice(0, KEYS)
  const idle = await log.append([note(IDLE, 'first', { timestamp: 1 }), note(IDLE, 'last', { timestamp: 1 })])
  const positions: Position[] = []
  for (const i of range(ROUNDS / 50))
    positions.push(
      ...(await log.append(
        range(50).flatMap((j) => keys.map((key) => note(key, `${i * 50 + j}`, { timestamp: 1000 + i * 50 + j }))),
      )),
    )
  return { positions, idle }
}

/** Of each partition the last offset below the first record of the round. */
const beforeRound = (
  log: EventLog,
  { positions, idle }: Awaited<ReturnType<typeof filled>>,
  round: number,
): Offsets => {
  const before = [...idle, ...positions.slice(0, round * KEYS)]
  const of = range(log.partitions('turns')).flatMap((partition): [number, number][] => {
    const last = before.findLast((one) => one.partition === partition)
    return last ? [[partition, last.offset]] : []
  })
  return { turns: Object.fromEntries(of) }
}

const startsOf = async (log: EventLog): Promise<Readonly<Record<number, number>>> =>
  (await log.starts!(['turns'])).turns!

const refused = (error: unknown): boolean => isCutAway(error)

export const cuttingFeatures = (feature: Feature): void => {
  feature('a log that was never cut holds all from 0 on', async ({ log }) => {
    await log.append([note('k', 'one'), note('k', 'one', { topic: 'weights' })])
    const { turns, weights } = await log.starts!(['turns', 'weights'])
    assert.deepEqual([...Object.values(turns!), ...Object.values(weights!)].filter(Boolean), [])
  })

  feature('a cut that no record allows deletes nothing, nor one beyond what is allowed', async ({ log }) => {
    const written = await filled(log)
    const starts = beforeRound(log, written, 500)
    await assert.rejects(log.cut!(starts), { code: 'internal' })
    await allow(log, beforeRound(log, written, 400))
    await assert.rejects(log.cut!(starts), { code: 'internal' })
    await allow(log, { updates: { 0: 1 } })
    await assert.rejects(log.cut!({ updates: { 0: 1 } }), { code: 'internal' })
    assert.deepEqual(Object.values(await startsOf(log)).filter(Boolean), [])
    assert.equal((await all(log.read('turns'))).length, ROUNDS * KEYS + 2)
  })

  feature('of a cut log each partition begins at a record, and what is after it is unchanged', async (opened) => {
    const { log } = opened
    const written = await filled(log)
    const before = await all(log.read('turns'))
    const ends = await log.ends(['turns'])
    const allowed = beforeRound(log, written, 500)
    await allow(log, allowed)
    await log.cut!(allowed)
    const held = async (now: EventLog): Promise<void> => {
      const starts = await startsOf(now)
      const records = await all(now.read('turns', { from: { turns: starts } }))
      const inPartition = (all: readonly LogRecord[], partition: number) =>
        all.filter((one) => one.partition === partition).map((one) => [one.offset, one.key, textOf(one)])
      let gone = 0
      for (const partition of range(now.partitions('turns'))) {
        const start = starts[partition]!
        assert.ok(start <= (allowed.turns![partition] ?? 0), `${partition}: ${start} is above what is allowed`)
        const expected = inPartition(before, partition).filter(([offset]) => (offset as number) >= start)
        assert.deepEqual(inPartition(records, partition), expected)
        gone += inPartition(before, partition).length - expected.length
        if (expected.length > 0) assert.equal(expected[0]![0], start)
        const alone = await all(now.read('turns', { partition, from: { turns: { [partition]: start } } }))
        assert.deepEqual(inPartition(alone, partition), expected)
      }
      assert.ok(gone >= 1500, `only ${gone} records are gone`)
      assert.deepEqual(await now.ends(['turns']), ends)
    }
    await held(log)
    await log.cut!(allowed)
    await log.cut!({ turns: { 0: 0 } })
    await held(log)
    await log.close()
    const again = await opened.reopen()
    await held(again)
    const { key } = before.at(-1)!
    const [position] = await again.append([note(key, 'after')])
    assert.ok(position!.offset >= ends.turns![position!.partition]!)
    assert.equal(textOf((await again.at(position!))!), 'after')
    await assert.rejects(again.cut!({ turns: { [position!.partition]: position!.offset } }), { code: 'internal' })
  })

  feature('what begins before the cut is refused, by position, time, key and group', async ({ log }) => {
    const written = await filled(log)
    const allowed = beforeRound(log, written, 500)
    await allow(log, allowed)
    await log.cut!(allowed)
    const starts = await startsOf(log)
    const gone = written.positions[0]!
    const { key } = (await all(log.read('turns', { from: { turns: starts }, partition: gone.partition }))).at(-1)!
    const below = { turns: { ...starts, [gone.partition]: starts[gone.partition]! - 1 } }
    for (const options of [{}, { from: below }, { key }, { partition: gone.partition }, { from: { time: 0 } }])
      await assert.rejects(async () => all(log.read('turns', options)), refused, JSON.stringify(options))
    await assert.rejects(log.at(gone), refused)
    const subscribing = { topics: ['turns'] as const, group: 'g', handle: () => {} }
    for (const from of ['start', 'committed', below] as const)
      await assert.rejects(log.subscribe({ ...subscribing, from }), refused)
    const taking = await log.subscribe({ ...subscribing, from: 'start', byPartition: 'turns' })
    await assert.rejects(
      taking.take(gone.partition, () => 0),
      refused,
    )
    await taking.stop()
    await assert.rejects(async () => all(log.read('turns', { to: { time: 1100 } })), refused)
  })

  feature('a read and a subscription that are overtaken by a cut end with its error', async ({ log }) => {
    const written = await filled(log)
    const allowed = beforeRound(log, written, 500)
    await allow(log, allowed)
    const { partition } = written.positions[0]!
    const reads = [
      log.read('turns', { maxBatch: 10, maxBytes: 100 }),
      log.read('turns', { partition, maxBatch: 10, maxBytes: 100 }),
    ].map((pages) => pages[Symbol.asyncIterator]())
    const counts: number[] = []
    for (const pages of reads) {
      const { value } = await pages.next()
      counts.push((value as LogRecord[]).length)
    }
    const entered = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    let handled = 0
    const subscription = await log.subscribe({
      topics: ['turns'],
      group: 'slow',
      from: 'start',
      maxBatch: 10,
      handle: (records) => {
        handled += records.length
        entered.resolve()
        return gate.promise
      },
    })
    await entered.promise
    await log.cut!(allowed)
    gate.resolve()
    // What was fetched before the cut may be read to the end; a shorter answer ends with the error.
    const whole = ROUNDS * KEYS + 2
    const inPartition = written.positions.filter((one) => one.partition === partition).length
    for (const [i, pages] of reads.entries()) {
      let records = counts[i]!
      const reading = async (): Promise<void> => {
        for (let page = await pages.next(); !page.done; page = await pages.next()) records += page.value.length
      }
      const error = await reading().catch((cause: unknown) => cause)
      if (error === undefined) assert.equal(records, i === 0 ? whole : inPartition)
      else assert.ok(refused(error), (error as Error).message)
    }
    const ended = await Promise.race([
      subscription.done.catch((error: unknown) => error),
      subscription.caughtUp().catch((error: unknown) => error),
    ])
    assert.ok(
      ended === undefined ? handled === whole : refused(ended),
      `${handled} handled, ${(ended as Error | undefined)?.message}`,
    )
    await subscription.stop()
  })

  feature('what begins after the cut is read, by position, time, key and group', async ({ log }) => {
    const written = await filled(log)
    const allowed = beforeRound(log, written, 500)
    await allow(log, allowed)
    await log.cut!(allowed)
    const starts = { turns: await startsOf(log) }
    const late = byKey(await all(log.read('turns', { from: { time: 1550 } })))
    assert.deepEqual(
      [...late.values()].map((texts) => [texts.length, texts[0]]),
      range(KEYS).map(() => [50, '550']),
    )
    const last = written.positions.at(-1)!
    const [record] = await all(
      log.read('turns', { partition: last.partition, from: { turns: { [last.partition]: last.offset } } }),
    )
    const { key } = record!
    const ofKey = await all(
      log.read('turns', { key, from: { turns: { [last.partition]: starts.turns[last.partition]! } } }),
    )
    assert.equal(textOf(ofKey.at(-1)!), String(ROUNDS - 1))
    // The record before a position that is behind the cut, also of a partition without newer ones.
    for (const [partition, start] of Object.entries(starts.turns))
      if (start > 0) assert.ok(await log.at({ topic: 'turns', partition: Number(partition), offset: start }))
    const idle = written.idle[1]!
    assert.equal(textOf((await log.at(idle))!), 'last')
    assert.deepEqual(
      await all(
        log.read('turns', { partition: idle.partition, from: { turns: { [idle.partition]: idle.offset + 1 } } }),
      ),
      [],
    )
    const seen: string[] = []
    const following = await log.subscribe({
      topics: ['turns', 'scores'],
      group: 'g',
      from: starts,
      handle: (records) => void seen.push(...records.map(textOf)),
    })
    await following.caughtUp()
    assert.equal(seen.length, (await all(log.read('turns', { from: starts }))).length)
    await log.append([note(key, 'news')])
    await following.caughtUp()
    assert.equal(seen.at(-1), 'news')
    await following.stop()
  })

  feature('other topics are whole, and a second cut goes further', async ({ log }) => {
    const written = await filled(log)
    await log.append(range(3).map((i) => note('k', `${i}`, { topic: 'scores' })))
    await log.append(range(3).map((i) => note('k', `${i}`, { topic: 'updates' })))
    const [first, second] = [beforeRound(log, written, 300), beforeRound(log, written, 590)]
    await allow(log, first)
    await log.cut!(first)
    const before = await startsOf(log)
    await allow(log, second)
    await log.cut!(second)
    const after = await startsOf(log)
    const grown = range(log.partitions('turns')).filter((partition) => after[partition]! > before[partition]!)
    assert.ok(grown.length > 0 && range(log.partitions('turns')).every((one) => after[one]! >= before[one]!))
    for (const topic of ['scores', 'updates'] as const) assert.equal((await all(log.read(topic))).length, 3)
    // What stayed as the last record before the first cut is no start any more.
    for (const partition of grown)
      await assert.rejects(log.at({ topic: 'turns', partition, offset: before[partition]! }), refused)
  })
}
