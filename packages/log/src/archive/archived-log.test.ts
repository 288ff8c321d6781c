/** A log that was cut, with its archive, against the same log before the cut. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { archiveTo, cutBelow } from '../../../../test/kit/event-log/cut-log.ts'
import { eventLogFeatures } from '../../../../test/kit/event-log/features.ts'
import { all, CUT_SCHEMAS, note, range, textOf, type OpenOptions } from '../../../../test/kit/event-log/harness.ts'
import { startS3 } from '../../../../test/kit/s3-server.ts'
import {
  Archive,
  namingArchive,
  openEmbeddedLog,
  openFolderStore,
  openMemoryLog,
  openS3Store,
  withArchive,
  type ArchiveSource,
  type ArchiveStore,
  type EventLog,
  type LogRecord,
  type ReadOptions,
} from '../index.ts'
import type { Manifest } from './manifest.ts'

const root = mkdtempSync(join(tmpdir(), 'instar-archived-'))
after(() => rmSync(root, { recursive: true, force: true }))
const folder = (): string => mkdtempSync(join(root, 'x-'))

const CUT = ['turns', 'scores'] as const
const COUNT = 600
const KEYS = 40

/** `count` records of 40 keys in each topic, with times that mostly rise, and one of an idle key before them. */
const fill = async (log: EventLog, count = COUNT, start = 0): Promise<void> => {
  for (const topic of CUT) {
    if (start === 0) await log.append([note('idle', 'idle', { topic, timestamp: 1 })])
    for (let i = start; i < start + count; i += 50)
      await log.append(
        range(50).map((j) =>
          note(`k${((i + j) * 7) % KEYS}`, `${topic} ${i + j} ${'x'.repeat(((i + j) * 31) % 90)}`, {
            topic,
            timestamp: 1000 + 10 * (i + j) - (((i + j) * 37) % 200),
          }),
        ),
      )
  }
}

const sourceAt = (store: ArchiveStore, keptBytes = 1 << 20): ArchiveSource => ({
  address: store.address,
  open: () => Archive.open(store, { keptBytes }),
  close: () => store.close(),
})

const line = ({ topic, partition, offset, key, timestamp, ...record }: LogRecord): string =>
  `${topic} ${partition} ${offset} ${key} ${timestamp} ${textOf({ topic, partition, offset, key, timestamp, ...record })}`

const lines = async (log: Pick<EventLog, 'read'>, topic: Topic, options?: ReadOptions): Promise<string[]> =>
  (await all(log.read(topic, options))).map(line)

/** Archived, and cut below the offset of each topic. */
const cutMemoryLog = async (below = 400) => {
  const log = openMemoryLog()
  await fill(log)
  const whole = openMemoryLog()
  await fill(whole)
  const place = folder()
  const manifest = await archiveTo(log, place, { schemas: CUT_SCHEMAS })
  const starts = await cutBelow(log, { turns: below, scores: below - 50 }, { archive: place, manifest })
  ok(Object.values(starts.turns!).filter((start) => start > 0).length > 4, JSON.stringify(starts))
  return { log, whole, place, manifest, archived: withArchive(log, sourceAt(openFolderStore(place, false))) }
}

const code =
  (expected: string, message: RegExp) =>
  (error: unknown): boolean => {
    ok(error instanceof InstarError && error.code === expected, String(error))
    match(error.message, message)
    return true
  }

eventLogFeatures(
  'memory, with an archive',
  async (options: OpenOptions = {}) => {
    const first = openMemoryLog(options)
    const wrapped = (log: EventLog): EventLog => withArchive(log, sourceAt(openFolderStore(folder(), false)))
    let log = wrapped(first)
    return {
      log,
      reopen: async (again = {}) => (log = wrapped(openMemoryLog({ ...options, ...again, store: first.store }))),
      remove: () => log.close(),
    }
  },
  { kills: 0, cuts: false },
)

describe('a log that was cut, with its archive', () => {
  test('is read as before the cut, in order, by position, partition, key and time', async () => {
    const { log, whole, archived } = await cutMemoryLog()
    const position = (offset: number) => Object.fromEntries(range(log.partitions('turns')).map((one) => [one, offset]))
    const ends = (await log.ends(['turns'])).turns!
    const below = (limit: number) =>
      Object.fromEntries(Object.entries(ends).map(([one, end]) => [one, Math.min(end, limit)]))
    const cases: ReadOptions[] = [
      {},
      { from: { turns: below(399) } },
      { from: { turns: below(100) }, to: { turns: position(300) } },
      { from: { turns: below(100) }, to: { turns: position(500) } },
      { from: { turns: below(450) } },
      { from: { turns: { 0: 0, 3: ends[3]! } } },
      { to: { turns: position(20) } },
      ...range(KEYS).map((i) => ({ key: `k${i}` })),
      { key: 'idle' },
      { key: 'k3', from: { turns: below(200) }, to: { turns: position(410) } },
      ...range(log.partitions('turns')).map((partition) => ({ partition, maxBatch: 7 })),
      // About the cut some partitions begin in the archive, and some on the log behind its first record.
      ...range(80).map((i) => ({ from: { time: 4500 + 10 * i } })),
      ...range(80).map((i) => ({ to: { time: 4500 + 10 * i } })),
      ...[0, 500, 2000, 4000, 4950, 5100, 6000, 9000].flatMap((time): ReadOptions[] => [
        { from: { time } },
        { to: { time } },
        { from: { time: time - 700 }, to: { time } },
        { key: 'k5', from: { time } },
        { key: 'idle', from: { time } },
        { key: 'k5', from: { time: time - 700 }, to: { time } },
        { partition: 2, to: { time } },
      ]),
    ]
    for (const options of cases) {
      const now = await lines(archived, 'turns', options)
      const before = await lines(whole, 'turns', options)
      deepEqual(now, before, JSON.stringify(options))
    }
    deepEqual(await lines(archived, 'scores'), await lines(whole, 'scores'))
    for await (const page of archived.read('turns', { maxBatch: 7 })) ok(page.length <= 7)
    for (const topic of CUT) {
      const starts = Object.entries((await archived.starts!([topic]))[topic]!)
      equal(starts.length, log.partitions(topic))
      ok(starts.every(([, start]) => start === 0))
    }
    await rejects(async () => all(archived.read('turns', { from: { turns: { 0: 10_000 } } })), {
      code: 'position_unknown',
    })
    await archived.close()
  })

  test('gives each record by its position, and none where none was', async () => {
    const { whole, archived } = await cutMemoryLog()
    for (const topic of CUT)
      for (const record of await all(whole.read(topic))) {
        equal(line((await archived.at(record))!), line(record))
        const elsewhere = { ...record, partition: (record.partition + 1) % whole.partitions(topic) }
        equal(await archived.at(elsewhere), undefined)
      }
    await archived.close()
  })

  test('is followed from its start and from within what was cut without a gap or a second delivery', async () => {
    const { log, whole, archived } = await cutMemoryLog()
    const ends = (await log.ends(['turns'])).turns!
    for (const [from, batch] of [
      [0, 512],
      [150, 9],
      [390, 1],
    ] as const) {
      const offsets = { turns: Object.fromEntries(Object.entries(ends).map(([p, end]) => [p, Math.min(end, from)])) }
      const follow = async (one: EventLog) => {
        const seen: string[] = []
        let running = 0
        const subscription = await one.subscribe({
          topics: ['turns', 'scores', 'upgrades', 'weights'],
          group: 'g',
          from: from === 0 ? 'start' : offsets,
          maxBatch: batch,
          async handle(records) {
            equal(running++, 0)
            ok(records.length <= batch && new Set(records.map(({ partition }) => partition)).size === 1)
            await Promise.resolve()
            seen.push(...records.filter(({ topic }) => topic !== 'upgrades').map(line))
            running--
          },
        })
        await subscription.caughtUp()
        return { seen, subscription }
      }
      const [now, before] = [await follow(archived), await follow(whole)]
      // The order of properties is not compared.
      const byPartition = (texts: string[]) => ({ ...Object.groupBy(texts, (text) => text.split(' ', 2).join(' ')) })
      deepEqual(byPartition(now.seen), byPartition(before.seen))
      await archived.append([note('k1', `news ${from}`), note('k1', 'news', { topic: 'weights' })])
      await whole.append([note('k1', `news ${from}`), note('k1', 'news', { topic: 'weights' })])
      await now.subscription.caughtUp()
      match(
        now.seen.find((text) => text.includes(`news ${from}`))!,
        /^turns/,
      )
      await Promise.all([now.subscription.stop(), before.subscription.stop()])
      await now.subscription.done
      await rejects(now.subscription.caughtUp(), { code: 'log_unavailable' })
    }
    await archived.close()
  })

  test('takes a partition from within what was cut, and leaves it when it is released', async () => {
    const { whole, archived } = await cutMemoryLog()
    const partition = (await all(whole.read('turns', { key: 'k1' })))[0]!.partition
    const expected = await lines(whole, 'turns', { partition })
    const seen: string[] = []
    const gate = Promise.withResolvers<void>()
    let block = false
    const subscription = await archived.subscribe({
      topics: ['turns', 'scores'],
      group: 'g',
      from: 'start',
      byPartition: 'turns',
      maxBatch: 2,
      async handle(records) {
        if (records[0]!.topic !== 'turns') return
        seen.push(...records.map(line))
        if (block) await gate.promise
      },
    })
    await subscription.caughtUp()
    deepEqual(seen, [])
    await subscription.take(partition, () => 0)
    deepEqual(seen.splice(0), expected)
    block = true
    const taking = subscription.take(partition, () => 0)
    while (seen.length === 0) await new Promise(setImmediate)
    subscription.release(partition)
    gate.resolve()
    await taking
    deepEqual(seen, expected.slice(0, 2))
    await subscription.stop()
    await archived.close()
  })

  test('ends a subscription at an error of the handler, within what was cut as behind it', async () => {
    for (const wanted of [100, 500]) {
      const { archived } = await cutMemoryLog()
      const subscription = await archived.subscribe({
        topics: ['turns', 'upgrades'],
        group: 'g',
        from: 'start',
        handle: (records) => {
          if (records.some(({ offset, topic }) => topic === 'turns' && offset >= wanted)) throw new Error('the handler')
        },
      })
      await rejects(subscription.done, /the handler/)
      await rejects(subscription.caughtUp(), /the handler/)
      await subscription.stop()
      await archived.close()
    }
  })

  test('that is cut further goes on, also where the archive has grown meanwhile', async () => {
    const { log, whole, place, archived } = await cutMemoryLog()
    deepEqual(await lines(archived, 'turns'), await lines(whole, 'turns'))
    for (const one of [log, whole]) await fill(one, 200, COUNT)
    const manifest = await archiveTo(log, place, { schemas: CUT_SCHEMAS })
    const seen: string[] = []
    const subscription = await archived.subscribe({
      topics: ['turns'],
      group: 'g',
      from: 'start',
      async handle(records) {
        if (seen.length === 0) await cutBelow(log, { turns: 700 }, { archive: place, manifest })
        seen.push(...records.map(line))
      },
    })
    await subscription.caughtUp()
    equal(seen.length, (await lines(whole, 'turns')).length)
    equal(new Set(seen).size, seen.length)
    await subscription.stop()
    deepEqual(await lines(archived, 'turns'), await lines(whole, 'turns'))
    await archived.close()
  })
})

describe('the archive of a cut log', () => {
  test('that is another log’s, or lacks what was cut, is refused before a record is given out', async () => {
    const { log } = await cutMemoryLog()
    const other = openMemoryLog()
    for (const topic of CUT)
      await other.append(range(700).map((i) => note(`k${(i * 7) % KEYS}`, `other ${i}`, { topic })))
    const [another, short, narrow] = [folder(), folder(), folder()]
    await archiveTo(other, another, { schemas: CUT_SCHEMAS })
    const beginning = openMemoryLog()
    await fill(beginning, 100)
    await archiveTo(beginning, short, { schemas: CUT_SCHEMAS })
    const few = openMemoryLog({ partitions: { turns: 2 } })
    await archiveTo(few, narrow, { schemas: CUT_SCHEMAS })
    for (const [place, message] of [
      [another, /are not those that were cut from the log/],
      [short, /it ends at \d+ of turns \d+, and the log begins at \d+/],
      [narrow, /it has 2 partitions of turns, the log 8/],
    ] as const) {
      const archived = withArchive(log, sourceAt(openFolderStore(place, false)))
      await rejects(async () => all(archived.read('turns')), code('archive_differs', message))
      await rejects(
        archived.subscribe({ topics: ['turns'], group: 'g', from: 'start', handle: () => undefined }),
        code('archive_differs', message),
      )
      await rejects(
        archived.at({ topic: 'turns', partition: await firstCut(log), offset: 1 }),
        code('archive_differs', message),
      )
      // What the log holds needs no archive.
      ok((await all(archived.read('turns', { from: await log.starts!(['turns']) }))).length > 150)
    }
  })

  test('whose object is damaged, cut off or missing ends a read with its name, and never with fewer records', async () => {
    for (const [harm, message] of [
      [(path: string) => writeFileSync(path, flipped(readFileSync(path))), /does not match its sha256/],
      [(path: string) => truncateSync(path, 50), /it is truncated/],
      [(path: string) => rmSync(path), /it is missing/],
    ] as const) {
      const { place, archived } = await cutMemoryLog()
      const objects = readdirSync(join(place, 'objects', 'turns'), { recursive: true, withFileTypes: true }).filter(
        (one) => one.isFile(),
      )
      const [first] = objects.filter(({ name }) => name.startsWith('0000000000000000-'))
      harm(join(first!.parentPath, first!.name))
      await rejects(async () => all(archived.read('turns')), code('archive_damaged', message))
      await rejects(async () => all(archived.read('turns')), code('archive_damaged', new RegExp(first!.name)))
      const following = async (): Promise<void> => {
        const options = { topics: ['turns'], group: 'g', from: 'start', handle: () => undefined } as const
        await (
          await archived.subscribe(options)
        ).done
      }
      await rejects(following, code('archive_damaged', message))
      await archived.close()
    }
  })

  test('is named by the error of a read without it', async () => {
    const { log, place } = await cutMemoryLog()
    const named = namingArchive(log)
    const message = new RegExp(`turns \\d+ begins at offset \\d+: .* archive: ${place}$`)
    await rejects(async () => all(named.read('turns')), code('log_cut', message))
    await rejects(
      named.subscribe({ topics: ['turns'], group: 'g', from: 'start', handle: () => undefined }),
      code('log_cut', message),
    )
    await rejects(named.at({ topic: 'turns', partition: await firstCut(log), offset: 1 }), code('log_cut', message))
  })

  test('keeps the objects that were read last, within its limit, and reads each once while it does', async () => {
    const { log, whole, place } = await cutMemoryLog()
    const store = openFolderStore(place, false)
    let reads = 0
    const counting: ArchiveStore = { ...store, read: (name, ...rest) => ((reads += 1), store.read(name, ...rest)) }
    const records = (await all(whole.read('turns'))).slice(0, 300)
    const use = async (keptBytes: number): Promise<{ reads: number; bytes: number; most: number }> => {
      let archive: Archive | undefined
      const source = {
        ...sourceAt(counting),
        open: async () => (archive = await Archive.open(counting, { keptBytes })),
      }
      const archived = withArchive(log, source)
      reads = 0
      let most = 0
      for (const record of records) {
        await archived.at(record)
        most = Math.max(most, archive?.use.keptBytes ?? 0)
      }
      return { reads, bytes: archive!.use.keptBytes, most }
    }
    const all16 = await use(1 << 30)
    const limited = await use(5000)
    const none = await use(0)
    ok(limited.most <= 5000 && limited.bytes > 0, JSON.stringify(limited))
    ok(all16.most > 5000 && all16.reads < 60, JSON.stringify(all16))
    equal(none.most, 0)
    ok(limited.reads > 2 * all16.reads && none.reads >= 250, JSON.stringify([all16, limited, none]))
  })

  test('is searched by time with one object of the partition; an archive of version 1 with each before it, once', async () => {
    const log = openMemoryLog()
    await fill(log, 1000)
    const place = folder()
    await archiveTo(log, place, { schemas: CUT_SCHEMAS, objectBytes: 400 })
    const records = (await all(log.read('turns'))).filter(({ partition }) => partition === 2)
    const times = records.map(({ timestamp }) => timestamp).toSorted((a, b) => a - b)
    const open = () => Archive.open(openFolderStore(place, false), { keptBytes: 1 << 20 })
    const reads = async (archive: Archive, time: number): Promise<number> => {
      const before = archive.use.read
      const expected = records.find(({ timestamp }) => timestamp >= time)?.offset
      equal(await archive.firstSince('turns', 2, time, Infinity), expected)
      return archive.use.read - before
    }
    const [early, late] = [times[Math.floor(times.length / 2)]!, times.at(-5)!]
    for (const time of [times[0]!, early, late]) equal(await reads(await open(), time), 1, `${time}`)
    equal(await reads(await open(), times.at(-1)! + 1), 0)

    const file = join(place, 'manifest.json')
    const { checksum: _, ...manifest } = JSON.parse(readFileSync(file, 'utf8')) as Manifest & { checksum: string }
    const { objects } = manifest.topics.turns[2]!
    for (const partition of Object.values(manifest.topics).flat()) for (const one of partition.objects) delete one.times
    writeFileSync(file, JSON.stringify({ ...manifest, version: 1 }))
    const old = await open()
    const first = await reads(old, late)
    ok(first > 5 && first <= objects.length, `${first} of ${objects.length} objects`)
    equal(await reads(old, late), 0)
    equal(await reads(old, times.at(-1)! + 1), objects.length - first)
  })

  test('in a store with the S3 API is read by position, range and time', async () => {
    const server = await startS3()
    try {
      const open = (): ArchiveStore =>
        openS3Store({
          bucket: server.bucket,
          prefix: 'instar',
          endpoint: server.endpoint,
          region: 'us-east-1',
          accessKeyId: 'S3RVER',
          secretAccessKey: 'S3RVER',
        })
      const [log, whole] = [openMemoryLog(), openMemoryLog()]
      for (const one of [log, whole]) await fill(one)
      const manifest = await archiveTo(log, '', { schemas: CUT_SCHEMAS, store: open() })
      await cutBelow(log, { turns: 400 }, { archive: 's3://archives/instar', manifest })
      const archived = withArchive(log, sourceAt(open()))
      deepEqual(await lines(archived, 'turns'), await lines(whole, 'turns'))
      deepEqual(
        await lines(archived, 'turns', { key: 'k9', from: { time: 2000 } }),
        await lines(whole, 'turns', { key: 'k9', from: { time: 2000 } }),
      )
      const [first] = await all(whole.read('turns'))
      equal(line((await archived.at(first!))!), line(first!))
      await archived.close()
    } finally {
      await server.stop()
    }
  })
})

test('an embedded log that was cut is read from its archive as before, by another process’s view too', async () => {
  const place = folder()
  const data = folder()
  const log = await openEmbeddedLog({ folder: data, schemas: CUT_SCHEMAS })
  await fill(log, 2300)
  const before = await Promise.all(TOPICS.map((topic) => lines(log, topic)))
  const manifest = await archiveTo(log, place, { schemas: CUT_SCHEMAS, objectBytes: 16_384 })
  const starts = await cutBelow(log, { turns: 2200, scores: 1500 }, { archive: place, manifest })
  ok(Object.values(starts.turns!).some((start) => start > 1500))
  const source = (): ArchiveSource => sourceAt(openFolderStore(place, false))
  const reading = await openEmbeddedLog({ folder: data, schemas: CUT_SCHEMAS, readOnly: true })
  for (const one of [withArchive(log, source()), withArchive(reading, source())]) {
    const now = await Promise.all(TOPICS.map((topic) => lines(one, topic)))
    for (const [i, topic] of TOPICS.entries()) if (topic !== 'upgrades') deepEqual(now[i], before[i])
  }
  await reading.close()
  await log.close()
})

const firstCut = async (log: EventLog): Promise<number> =>
  Number(Object.entries((await log.starts!(['turns'])).turns!).find(([, start]) => start > 1)![0])

const flipped = (bytes: Buffer): Buffer => {
  bytes[bytes.length >> 1]! ^= 1
  return bytes
}
