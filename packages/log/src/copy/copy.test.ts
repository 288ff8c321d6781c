/** Tests of log copies: their content, interrupted copies, and destinations that are refused. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import {
  copyLog,
  openEmbeddedLog,
  openMemoryLog,
  type Append,
  type CopyProgress,
  type EventLog,
  type LogRecord,
} from '../index.ts'
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { all, note, range, SCHEMAS } from '../../../../test/kit/event-log/harness.ts'
import { killAt, linesOf, startScript } from '../../../../test/kit/event-log/scripts.ts'

const folder = (): string => {
  const made = mkdtempSync(join(tmpdir(), 'instar-copy-'))
  after(() => rmSync(made, { recursive: true, force: true }))
  return made
}

const TEXT = 'x'.repeat(300)

/** Appends `count` records of 40 keys to each topic, with repeated records and equal times. */
const fill = async (log: EventLog, count: number, start = 0): Promise<void> => {
  const records: Append[] = range(count).flatMap((i) =>
    TOPICS.map((topic) =>
      note(`k${((start + i) * 7) % 40}`, `${topic} ${start + i - (i % 5 === 0 ? 1 : 0)} ${TEXT}`, {
        topic,
        timestamp: 1000 + Math.floor((start + i) / 3),
      }),
    ),
  )
  for (let i = 0; i < records.length; i += 2000) await log.append(records.slice(i, i + 2000))
}

type StoredRecord = Pick<LogRecord, 'key' | 'schema' | 'timestamp'> & { payload: string }

const recordsByKey = async (log: EventLog, topic: Topic): Promise<Map<string, StoredRecord[]>> =>
  Map.groupBy(
    (await all(log.read(topic))).map(({ key, schema, timestamp, payload }) => ({
      key,
      schema,
      timestamp,
      payload: Buffer.from(payload).toString('hex'),
    })),
    ({ key }) => key,
  )

const assertSame = async (a: EventLog, b: EventLog): Promise<void> => {
  // The order of the keys may differ.
  for (const topic of TOPICS)
    assert.deepEqual(Object.fromEntries(await recordsByKey(b, topic)), Object.fromEntries(await recordsByKey(a, topic)))
}

const differs =
  (what: RegExp, details: object) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof InstarError && error.code === 'copy_differs', String(error))
    assert.match(error.message, what)
    assert.deepEqual({ ...error.details, ...details }, error.details)
    return true
  }

describe('a copy of a log', () => {
  test('has the same records, times and order per key, on both adapters and copied back', async () => {
    const source = openMemoryLog()
    await fill(source, 500)
    const embedded = await openEmbeddedLog({ folder: folder(), schemas: SCHEMAS })
    const back = openMemoryLog()
    const there = await copyLog({ from: source, to: embedded })
    const again = await copyLog({ from: embedded, to: back })
    await assertSame(source, embedded)
    await assertSame(source, back)
    assert.deepEqual([there.copied, there.skipped, there.equal, there.first], [500 * TOPICS.length, 0, true, null])
    assert.deepEqual(again.topics, there.topics)
    const { records, bytes } = there.topics.turns
    assert.deepEqual(
      [records, bytes],
      [500, (await all(source.read('turns'))).reduce((sum, { payload }) => sum + payload.length, 0)],
    )
    assert.equal(new Set(TOPICS.map((topic) => there.topics[topic].digest)).size, TOPICS.length)
    await embedded.close()
  })

  test('of an embedded log to another one keeps the offsets, also of records whose times are not in order', async () => {
    const [source, to] = await Promise.all([1, 2].map(() => openEmbeddedLog({ folder: folder(), schemas: SCHEMAS })))
    await source!.append(
      range(600).map((i) => note(`k${(i * 7) % 40}`, `${i}`, { topic: 'turns', timestamp: 1000 + ((i * 37) % 100) })),
    )
    await copyLog({ from: source!, to: to! })
    const offsets = async (log: EventLog) =>
      (await all(log.read('turns'))).map(({ offset, payload }) => [offset, Buffer.from(payload).toString()])
    assert.deepEqual(await offsets(to!), await offsets(source!))
    await Promise.all([source!.close(), to!.close()])
  })

  test("adds the source's announcements to those of the destination, once", async () => {
    const source = openMemoryLog()
    await source.append([note('readers', 'up', { topic: 'upgrades' }), note('a', 'said')])
    for (const partitions of [undefined, { turns: 3 }]) {
      const to = openMemoryLog(partitions ? { partitions } : {})
      await to.append([note('readers', 'setup', { topic: 'upgrades' })])
      const first = await copyLog({ from: source, to })
      assert.deepEqual(
        [first.copied, first.skipped, first.equal, first.first, first.topics.upgrades.records],
        [2, 0, true, null, 1],
      )
      const again = await copyLog({ from: source, to })
      assert.deepEqual([again.copied, again.skipped, again.equal], [0, 2, true])
      assert.deepEqual(
        (await all(to.read('upgrades')))
          .map(({ payload }) => Buffer.from(payload).toString())
          .map((text) => /setup|up/.exec(text)?.[0]),
        ['setup', 'up'],
      )
    }
  })

  test('into an embedded log takes the memory of its queue once, however large the log is', async (t) => {
    const source = openMemoryLog()
    const text = 'x'.repeat(400_000)
    for (let i = 0; i < 100; i += 1) await source.append([note(`k${i % 7}`, text, { topic: 'blobs' })])
    await source.append(range(20_000).map((i) => note(`${'k'.repeat(64)}${i % 9}`, 'x'.repeat(200))))
    const to = await openEmbeddedLog({ folder: folder(), schemas: SCHEMAS })
    let shared = 0
    const counted = class extends SharedArrayBuffer {
      constructor(bytes: number) {
        super(bytes)
        shared += bytes
      }
    }
    const { SharedArrayBuffer: before } = globalThis
    t.after(() => Object.assign(globalThis, { SharedArrayBuffer: before }))
    Object.assign(globalThis, { SharedArrayBuffer: counted })
    const { copied, equal } = await copyLog({ from: source, to })
    await to.close()
    assert.deepEqual([copied, equal], [20_100, true])
    // Each of the two frames grows from 1 to 2 and 4 MiB.
    assert.ok(shared <= 12 << 20, `${shared} bytes`)
  })

  test('of an empty log has no records', async () => {
    const { copied, equal, topics } = await copyLog({ from: openMemoryLog(), to: openMemoryLog() })
    assert.deepEqual([copied, equal, topics.turns.records], [0, true, 0])
  })

  test('has the same order in each partition, read from the start and from a time', async () => {
    const source = openMemoryLog()
    await fill(source, 300)
    const to = openMemoryLog()
    await copyLog({ from: source, to })
    for (const partition of range(8)) {
      const texts = async (log: EventLog, from?: { time: number }): Promise<string[]> =>
        (await all(log.read('turns', { partition, from }))).map(({ payload }) => Buffer.from(payload).toString())
      assert.deepEqual(await texts(to), await texts(source))
      assert.deepEqual(await texts(to, { time: 1050 }), await texts(source, { time: 1050 }))
    }
  })

  test('skips records that were copied and adds records that were appended since', async () => {
    const source = openMemoryLog()
    const to = openMemoryLog()
    await fill(source, 200)
    assert.equal((await copyLog({ from: source, to })).copied, 200 * TOPICS.length)
    assert.deepEqual(
      await copyLog({ from: source, to }).then(({ copied, skipped, equal }) => [copied, skipped, equal]),
      [0, 200 * TOPICS.length, true],
    )
    await fill(source, 50, 200)
    assert.deepEqual(
      await copyLog({ from: source, to }).then(({ copied, skipped, equal }) => [copied, skipped, equal]),
      [50 * TOPICS.length, 200 * TOPICS.length, true],
    )
    await assertSame(source, to)
  })

  test('does not include records that are appended during the copy', async () => {
    const source = openMemoryLog()
    const to = openMemoryLog()
    await fill(source, 100)
    let grown = false
    const report = await copyLog({
      from: source,
      to,
      onProgress: ({ phase }) => {
        if (phase !== 'copy' || grown) return
        grown = true
        void fill(source, 10, 100)
      },
    })
    assert.deepEqual([report.copied, report.equal, report.sourceGrew], [100 * TOPICS.length, true, true])
  })

  test('may have other partition counts, also when it is continued', async () => {
    const source = openMemoryLog()
    await fill(source, 400)
    const partitions = { turns: 16, scores: 1, blobs: 3 }
    const to = openMemoryLog({ partitions })
    const aborting = new AbortController()
    await assert.rejects(
      copyLog({ from: source, to: stopping(to, 2, aborting), signal: aborting.signal }),
      (error) => error instanceof InstarError && error.code === 'aborted',
    )
    await fill(source, 20, 400)
    const { copied, skipped, equal, topics } = await copyLog({ from: source, to })
    assert.deepEqual([copied + skipped, equal], [420 * TOPICS.length, true])
    assert.ok(copied > 0 && skipped > 0)
    await assertSame(source, to)
    const same = openMemoryLog()
    assert.deepEqual((await copyLog({ from: to, to: same })).topics, topics)
    // The source's partitions are merged by time.
    const times = (await all(to.read('scores'))).map(({ timestamp }) => timestamp)
    assert.deepEqual(
      times,
      times.toSorted((a, b) => a - b),
    )
  })

  test('reports increasing progress of every topic up to 1', async () => {
    const source = openMemoryLog()
    await fill(source, 4000)
    const reports: CopyProgress[] = []
    await copyLog({ from: source, to: openMemoryLog(), onProgress: (progress) => void reports.push(progress) })
    for (const [name, of] of Object.entries(Object.groupBy(reports, ({ phase, topic }) => `${phase} ${topic}`))) {
      const shares = of!.map(({ share }) => share)
      assert.deepEqual(
        shares,
        shares.toSorted((a, b) => a - b),
        name,
      )
      assert.equal(shares.at(-1), 1)
      if (name.startsWith('copy') || name.startsWith('check')) assert.equal(of!.at(-1)!.records, 4000)
    }
    assert.ok(
      reports.filter(({ phase, topic, share }) => phase === 'copy' && topic === 'turns' && share < 1).length >= 2,
    )
  })
})

/** Aborts the controller after the nth append. */
const stopping = (log: EventLog, appends: number, aborting: AbortController): EventLog =>
  Object.assign(Object.create(log) as EventLog, {
    read: log.read.bind(log),
    ends: log.ends.bind(log),
    partitions: log.partitions.bind(log),
    async append(records: readonly Append[]) {
      const positions = await log.append(records)
      if (--appends === 0) aborting.abort()
      return positions
    },
  })

describe('a destination that is not a prefix of the source', () => {
  const sourceOf = async (count = 50): Promise<EventLog> => {
    const log = openMemoryLog()
    await fill(log, count)
    return log
  }
  const TEXTS = { key: 'k', topic: 'turns' as const }
  for (const [name, partitions] of [
    ['same partitions', undefined],
    ['other partitions', { turns: 5 }],
  ] as const) {
    const refused = async (
      ours: readonly Append[],
      theirs: readonly Append[],
      what: RegExp,
      details: object,
    ): Promise<void> => {
      const source = await sourceOf()
      await source.append(ours)
      const to = openMemoryLog({ partitions })
      await copyLog({ from: await sourceOf(), to })
      await to.append(theirs)
      const ends = await to.ends(TOPICS)
      await assert.rejects(copyLog({ from: source, to }), differs(what, { ...TEXTS, ...details }))
      assert.deepEqual(await to.ends(TOPICS), ends)
    }
    test(`is refused with the first record that differs: ${name}`, async () => {
      const [a, b, c] = ['a', 'b', 'c'].map((text) => note('k', text)) as [Append, Append, Append]
      const offset = 50
      await refused([a, b, c], [a, c], /its bytes differ/, { offset: offset + 1 })
      await refused([a, b], [note('k', 'a', { timestamp: 5 })], /its timestamp is 1700000000000/, { offset })
      await refused([a], [a, a], /the destination has this record, the source has none/, { offset: offset + 1 })
      await refused([a, b], [a, a, b], /its bytes differ/, { offset: offset + 1 })
      await refused([], [a], /the source has none/, { offset })
    })
  }

  test('is reported with its first difference if another process writes to it during the copy', async () => {
    const source = await sourceOf()
    const to = openMemoryLog()
    const report = await copyLog({
      from: source,
      to,
      onProgress: ({ phase, topic }) => {
        if (phase === 'copy' && topic === 'scores') void to.append([note('k0', 'foreign', { topic: 'turns' })])
      },
    })
    assert.equal(report.equal, false)
    assert.deepEqual([report.first?.topic, report.first?.key], ['turns', 'k0'])
    assert.match(report.first!.what, /the source has none/)
  })
})

test(
  'a copy that is killed four times is completed by the next one, without lost or duplicate records',
  { timeout: 60_000 },
  async () => {
    const [from, into] = [folder(), folder()]
    const source = await openEmbeddedLog({ folder: from, schemas: SCHEMAS })
    await fill(source, 12_000)
    const copier = () => startScript('copier', from, into)
    // A page is written before the next is counted, so each process is killed within a topic.
    for (const step of [
      /^copy\/blobs/,
      /^copy\/turns\/0\.[789]/,
      /^copy\/scores\/0\.[789]/,
      /^copy\/updates\/0\.[789]/,
    ]) {
      await killAt(copier(), step)
    }
    const lines = await linesOf(copier())
    const { copied, skipped, equal } = JSON.parse(lines.at(-1)!.slice('done '.length)) as {
      copied: number
      skipped: number
      equal: boolean
    }
    assert.deepEqual([copied + skipped, equal], [12_000 * TOPICS.length, true])
    assert.ok(skipped > 3 * 12_000 && skipped < 4 * 12_000, `${skipped} were there`)
    const copy = await openEmbeddedLog({ folder: into, readOnly: true })
    await assertSame(source, copy)
    await Promise.all([source.close(), copy.close()])
  },
)
