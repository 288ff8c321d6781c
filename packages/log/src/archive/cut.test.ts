/** A cut of a log that is archived: what may go, what must not, and what an interrupted one leaves. */
import { recordId } from '@instar/events'
import { TOPICS, type Topic } from '@instar/events/flow'
import {
  Archive,
  cutsOn,
  openEmbeddedLog,
  logWith,
  openFolderStore,
  openMemoryLog,
  partitionOf,
  writeArchive,
  type CutOptions,
  type CutReport,
  type EventLog,
  type LogRecord,
  type Position,
} from '../index.ts'
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { allow, checkpointOf, cutAll } from '../../../../test/kit/event-log/cutting.ts'
import { all, CUT_SCHEMAS, note, range } from '../../../../test/kit/event-log/harness.ts'

const folders: string[] = []
after(() => folders.forEach((path) => rmSync(path, { recursive: true, force: true })))
const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), 'instar-cut-'))
  folders.push(path)
  return path
}

/** Rounds of a turn of 8 keys and a score of one, at the time of their number. */
const fill = async (log: EventLog, rounds: number, first = 0): Promise<void> => {
  const records = range(rounds).flatMap((i) => [
    ...range(8).map((k) => note(`k${k}`, `${first + i}`, { timestamp: first + i })),
    note('policy', `${first + i}`, { topic: 'scores', timestamp: first + i }),
  ])
  for (let at = 0; at < records.length; at += 900) await log.append(records.slice(at, at + 900))
}

const archived = async (log: EventLog, place: string): Promise<Archive> => {
  const store = openFolderStore(place, true)
  try {
    await writeArchive({ from: log, schemas: () => CUT_SCHEMAS, to: store })
  } finally {
    await store.close()
  }
  return Archive.open(openFolderStore(place, false))
}

type Changed = Partial<Omit<CutOptions, 'log' | 'archive'>>
const cut = async (log: EventLog, archive: Archive, changed: Changed = {}): Promise<CutReport> =>
  cutAll(log, { archive, place: '/archive', now: () => 7, ...changed })

const texts = async (log: EventLog, topic: Topic): Promise<number> =>
  (await all(log.read(topic, { from: await log.starts!([topic]) }))).length

/** What a read of the whole log would give, from archive and log. */
const whole = async (log: EventLog, archive: Archive): Promise<string[]> => {
  const ids = new Set<string>()
  for (const topic of TOPICS) {
    for (const record of await all(archive.read(topic))) ids.add(`${topic} ${record.partition}@${record.offset}`)
    for (const record of await all(log.read(topic, { from: await log.starts!([topic]) })))
      ids.add(`${topic} ${record.partition}@${record.offset}`)
  }
  return [...ids].sort()
}

const logs: Record<string, () => Promise<EventLog>> = {
  memory: async () => openMemoryLog(),
  embedded: async () => openEmbeddedLog({ folder: folder(), schemas: CUT_SCHEMAS }),
}

for (const [name, open] of Object.entries(logs))
  describe(`a cut: ${name}`, () => {
    const feature = (title: string, run: (log: EventLog) => Promise<void>): void => {
      test(title, async () => {
        const log = await open()
        await fill(log, 500)
        try {
          await run(log)
        } finally {
          await log.close()
        }
      })
    }

    feature(
      'deletes what is archived and folded, is recorded, and has nothing to do when it is run again',
      async (log) => {
        const place = folder()
        const archive = await archived(log, place)
        const before = await whole(log, archive)
        const checkpoints = [await checkpointOf(log)]
        const planned = await cut(log, archive, { dryRun: true, checkpoints })
        equal(planned.record, null)
        deepEqual([await texts(log, 'turns'), (await cutsOn(log)).length], [4000, 0])
        const report = await cut(log, archive, { checkpoints })
        deepEqual(
          [report.topics.turns.records, report.topics.turns.bytes, report.topics.scores.records],
          [planned.topics.turns.records, planned.topics.turns.bytes, planned.topics.scores.records],
        )
        ok(report.topics.turns.records >= 2048, `${report.topics.turns.records} turns`)
        equal(await texts(log, 'turns'), 4000 - report.topics.turns.records)
        equal(await texts(log, 'scores'), 500 - report.topics.scores.records)
        deepEqual(await whole(log, archive), [...before, 'upgrades 0@0'].sort(), 'no record is in neither')
        const [{ id, event }] = (await cutsOn(log)) as [Awaited<ReturnType<typeof cutsOn>>[number]]
        deepEqual(
          [id, event.archive, event.manifest, event.checkpoints, event.at],
          [report.record, '/archive', archive.digest, [checkpoints[0]!.id], 7],
        )
        for (const { topic, partition, start, record } of event.starts as (Position & {
          start: number
          record: string
        })[]) {
          equal((await log.starts!([topic]))[topic]![partition], start)
          const records = await all(archive.read(topic, { partition, to: { [topic]: { [partition]: start } } }))
          equal(record, records.length === 0 ? null : recordId(records.at(-1)!))
        }
        const again = await cut(log, archive)
        deepEqual([again.record, again.completed, again.topics.turns.records], [null, false, 0])
        equal((await cutsOn(log)).length, 1)
      },
    )

    feature('goes on with an archive of a log that was cut, and cuts further', async (log) => {
      const place = folder()
      const first = await cut(log, await archived(log, place))
      await fill(log, 500, 500)
      const archive = await archived(log, place)
      const { turns: starts } = (await log.starts!(['turns'])) as { turns: Record<number, number> }
      const gone = Object.entries(starts).map(([partition, start]): Position => ({
        topic: 'turns',
        partition: Number(partition),
        offset: start - 1,
      }))
      const second = await cut(log, archive, { needed: gone })
      ok(second.topics.turns.records >= 3000, `${second.topics.turns.records} turns`)
      equal(await texts(log, 'turns'), 8000 - first.topics.turns.records - second.topics.turns.records)
      equal((await whole(log, archive)).length, 8000 + 1000 + 2, 'the two records that allow the cuts among them')
    })

    feature(
      'leaves what is newer, what no checkpoint has folded, what is not archived and what is needed',
      async (log) => {
        const place = folder()
        const early = [await checkpointOf(log)]
        await archived(log, place)
        await fill(log, 500, 500)
        const late = [await checkpointOf(log)]
        const behind = await Archive.open(openFolderStore(place, false))
        const turns = await all(log.read('turns'))
        const firstOf = (kept: (record: LogRecord) => boolean): number => turns.find(kept)!.offset
        const deletes = async (archive: Archive, changed: Changed): Promise<number> =>
          (await cut(log, archive, { dryRun: true, checkpoints: late, ...changed })).topics.turns.records
        const within = (records: number, limit: number): void =>
          ok(records <= limit && records >= limit - 1024 - 8, `${records} of ${limit}`)
        within(await deletes(behind, {}), 4000)
        const archive = await archived(log, place)
        within(await deletes(archive, {}), 8000)
        within(await deletes(archive, { checkpoints: [...late, ...early] }), 4000)
        within(
          await deletes(archive, { since: 700 }),
          firstOf(({ timestamp }) => timestamp >= 700),
        )
        const needed = turns[5000]!
        within(await deletes(archive, { needed: [needed] }), 5000)
        equal(await deletes(archive, { since: 0 }), 0)
        const unread = { ...(await checkpointOf(log, ['scores'])), topics: ['turns', 'scores'] as const }
        equal(await deletes(archive, { checkpoints: [...late, unread] }), 0)
        // A state that folds no turns says nothing of them.
        within(await deletes(archive, { checkpoints: [...late, await checkpointOf(log, ['scores'])] }), 8000)
      },
    )

    for (const quiet of [1, 3])
      test(`a partition with ${quiet} old records and no newer ones holds up neither the completion nor the next cut`, async () => {
        const log = await open()
        const isQuiet = (key: string): boolean => partitionOf(key, 8) === partitionOf('quiet', 8)
        const keys = range(100)
          .map((i) => `k${i}`)
          .filter((key) => !isQuiet(key))
          .slice(0, 8)
        const say = async (rounds: number): Promise<void> => {
          for (const i of range(rounds / 50))
            await log.append(range(50).flatMap((j) => keys.map((key) => note(key, `${i}-${j}`, { timestamp: i + j }))))
        }
        try {
          await log.append([note(keys[0]!, 'first'), ...range(quiet).map((i) => note('quiet', `${i}`))])
          await say(300)
          const place = folder()
          const failing = logWith(log, { cut: () => Promise.reject(new Error('stopped')) })
          await rejects(cut(failing, await archived(log, place)), /stopped/)
          const held = 300 * 8 + 1 + quiet
          equal(await texts(log, 'turns'), held)
          const first = await cut(log, await archived(log, place))
          ok(first.topics.turns.records >= 2000, `${first.topics.turns.records}`)
          equal(await texts(log, 'turns'), held - first.topics.turns.records)
          await say(300)
          const second = await cut(log, await archived(log, place))
          ok(second.topics.turns.records >= 2000, `${second.topics.turns.records}`)
          equal(await texts(log, 'turns'), held + 2400 - first.topics.turns.records - second.topics.turns.records)
        } finally {
          await log.close()
        }
      })

    feature('one that was stopped between its record and the deletion is completed by the next', async (log) => {
      const place = folder()
      const archive = await archived(log, place)
      const checkpoints = [await checkpointOf(log)]
      const stopped = new Proxy(log, {
        get(target, key) {
          if (key === 'cut') return () => Promise.reject(new Error('stopped'))
          const value: unknown = Reflect.get(target, key)
          return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
        },
      })
      await rejects(cut(stopped, archive, { checkpoints }), /stopped/)
      deepEqual([(await cutsOn(log)).length, await texts(log, 'turns')], [1, 4000])
      // What was needed meanwhile, or is to be kept longer, stays, by a dry run and by a cut.
      const needed = (await all(log.read('turns')))[5]!
      for (const changed of [{ since: 0 }, { needed: range(8).map((i) => ({ ...needed, partition: i })) }])
        for (const dryRun of [true, false]) {
          const { completed, topics } = await cut(log, archive, { checkpoints, dryRun, ...changed })
          deepEqual([completed, topics.turns.records, await texts(log, 'turns')], [false, 0, 4000])
        }
      const planned = await cut(log, archive, { checkpoints, dryRun: true })
      const report = await cut(log, archive, { checkpoints })
      deepEqual([report.record, report.completed], [null, true])
      deepEqual(report.topics.turns.records, planned.topics.turns.records)
      equal(await texts(log, 'turns'), 4000 - report.topics.turns.records)
      ok((await texts(log, 'turns')) <= 4000 - 2048)
      equal((await cutsOn(log)).length, 1)
    })

    feature(
      'nothing is deleted where the archive differs, nor more than it has, whatever a record allows',
      async (log) => {
        const [place, other] = [folder(), folder()]
        const archive = await archived(log, place)
        const checkpoints = [await checkpointOf(log)]
        const stranger = openMemoryLog()
        await fill(stranger, 500, 1)
        await rejects(cut(log, await archived(stranger, other), { checkpoints }), { code: 'archive_differs' })
        equal(await texts(log, 'turns'), 4000)
        await fill(log, 500, 500)
        const turns = await all(log.read('turns'))
        const last = turns.at(-1)!
        const before = turns.findLast((one) => one.partition === last.partition && one.offset < last.offset)!
        await allow(log, { turns: { [last.partition]: last.offset } }, recordId(before))
        const report = await cut(log, archive, { checkpoints })
        deepEqual([report.completed, report.topics.turns.records <= 4000], [false, true])
        equal(await texts(log, 'turns'), 8000 - report.topics.turns.records)
      },
    )

    feature('what a record allows beyond the checkpoints is not deleted, and nothing else', async (log) => {
      const checkpoints = [await checkpointOf(log)]
      await fill(log, 500, 500)
      const archive = await archived(log, folder())
      const turns = await all(log.read('turns'))
      const last = turns.at(-1)!
      const before = turns.findLast((one) => one.partition === last.partition && one.offset < last.offset)!
      await allow(log, { turns: { [last.partition]: last.offset } }, recordId(before))
      await rejects(cut(log, archive, { checkpoints }), {
        code: 'archive_differs',
        message: /a record on the log allows that turns \d+ begins at \d+, and the checkpoints have it up to \d+/,
      })
      equal(await texts(log, 'turns'), 8000)
    })

    feature(
      'a copy of a cut log has its record, which allows nothing of the copy, and the copy is cut by its own',
      async (log) => {
        const place = folder()
        const archive = await archived(log, place)
        await cut(log, archive)
        const copy = openMemoryLog({ partitions: { turns: 3 } })
        for (const topic of TOPICS) {
          const records = [
            ...(await all(archive.read(topic, { to: await log.starts!([topic]) }))),
            ...(await all(log.read(topic, { from: await log.starts!([topic]) }))),
          ]
          if (records.length > 0) await copy.append(records)
        }
        equal((await cutsOn(copy)).length, 1)
        const needed = (await all(copy.read('turns')))[100]!
        const copied = await archived(copy, folder())
        const held = await cut(copy, copied, { needed: [needed] })
        deepEqual([held.record, held.completed, await texts(copy, 'turns')], [null, false, 4000])
        const report = await cut(copy, copied)
        ok(report.record !== null && report.topics.turns.records > 2000, JSON.stringify(report.topics))
        equal(await texts(copy, 'turns'), 4000 - report.topics.turns.records)
      },
    )

    feature('an archive that ends before the cut is not continued', async (log) => {
      const [place, late] = [folder(), folder()]
      await archived(log, place)
      await fill(log, 500, 500)
      await cut(log, await archived(log, late))
      for (const behind of [place, folder()])
        await rejects(archived(log, behind), { code: 'archive_differs', message: /was cut up to/ })
      const compared = Archive.open(openFolderStore(place, false)).then((archive) => cut(log, archive))
      await rejects(compared, { code: 'archive_differs' })
    })
  })
