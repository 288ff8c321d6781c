/**
 * The embedded log against what it stands on, in interleaved rounds of one run: durable appends of 2 KB by
 * 1, 32 and 256 callers, next to bare SQLite (same pragmas, same number of records per transaction, one plain
 * table) on the calling thread, where every flush stops the event loop, and on a thread of its own, and next to a
 * bare write + fdatasync of the same bytes; and replay.
 */
import { openEmbeddedLog } from '@instar/log'
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { openRaw, openRawThread } from './peers/raw-sqlite.ts'

const RECORD_BYTES = 2048
const CALLERS = [1, 32, 256]
const ROUNDS = 51
const ROUND_MS = 60
/** Groups of 256 before anything is measured: SQLite's write-ahead file has then been through a checkpoint and is overwritten, no longer extended. */
const WARM_GROUPS = 40
const REPLAYED = 100_000

export type Row = {
  what: string
  callers: number | null
  perSecond: number
  ofRawSqlite: number | null
  ofRawThread: number | null
  ofWriteFsync: number | null
  target: string | null
}
export type Report = { name: string; machine: string; rows: Row[] }

/** Runs one group of `callers` durable records. */
type Subject = { group(callers: number): Promise<void> | void; close(): Promise<void> | void }

const payload = Buffer.from(Array.from({ length: RECORD_BYTES }, (_, i) => (i * 7919 + (i >> 3) * 104729) & 255))
const record = (key: string) => ({ topic: 'turns' as const, key, schema: 'Bench.v1', payload, timestamp: Date.now() })
const keys = Array.from({ length: 256 }, (_, i) => `session-${i}`)

const ours = async (folder: string): Promise<Subject> => {
  const log = await openEmbeddedLog({ folder, schemas: { 'Bench.v1': '"bytes"' } })
  return {
    async group(callers) {
      await Promise.all(keys.slice(0, callers).map((key) => log.append([record(key)])))
    },
    close: () => log.close(),
  }
}

const rawSqlite = (folder: string): Subject => {
  const raw = openRaw(join(folder, 'raw.db'))
  return {
    group: (callers) => {
      raw.write(keys.slice(0, callers), () => payload)
    },
    close: () => {
      raw.close()
    },
  }
}

const rawThread = async (folder: string): Promise<Subject> => {
  const raw = await openRawThread(join(folder, 'thread.db'))
  return { group: (callers) => raw.write(keys.slice(0, callers), payload), close: () => raw.close() }
}

const writeFsync = (folder: string): Subject => {
  const file = openSync(join(folder, 'raw.bin'), 'w')
  const groups = new Map(
    CALLERS.map((callers) => [callers, Buffer.concat(Array.from({ length: callers }, () => payload))]),
  )
  return {
    group(callers) {
      writeSync(file, groups.get(callers)!)
      fdatasyncSync(file)
    },
    close: () => closeSync(file),
  }
}

const inFolder = async <T>(use: (folder: string) => Promise<T>): Promise<T> => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-bench-'))
  try {
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Records per second. */
const measure = async (subject: Subject, callers: number): Promise<number> => {
  const started = performance.now()
  let records = 0
  let elapsed = 0
  while (elapsed < ROUND_MS) {
    await subject.group(callers)
    records += callers
    elapsed = performance.now() - started
  }
  return (records / elapsed) * 1000
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!

const appends = (rounds: number): Promise<Row[]> =>
  inFolder(async (folder) => {
    const subjects: [string, Subject][] = [
      ['embedded log', await ours(folder)],
      ['raw SQLite', rawSqlite(folder)],
      ['raw SQLite, own thread', await rawThread(folder)],
      ['write + fdatasync', writeFsync(folder)],
    ]
    const figures = new Map<string, number[]>()
    for (let group = 0; group < WARM_GROUPS; group++) for (const [, subject] of subjects) await subject.group(256)
    for (let round = -1; round < rounds; round++) {
      for (const callers of CALLERS) {
        for (const [what, subject] of subjects) {
          const perSecond = await measure(subject, callers)
          if (round >= 0) figures.set(`${what} ${callers}`, [...(figures.get(`${what} ${callers}`) ?? []), perSecond])
        }
      }
    }
    for (const [, subject] of subjects) await subject.close()
    return CALLERS.flatMap((callers) =>
      subjects.map(([what]): Row => {
        const mine = figures.get(`${what} ${callers}`)!
        const against = (peer: string): number =>
          median(mine.map((value, round) => value / figures.get(`${peer} ${callers}`)![round]!))
        return {
          what: `append: ${what}`,
          callers,
          perSecond: median(mine),
          ofRawSqlite: against('raw SQLite'),
          ofRawThread: against('raw SQLite, own thread'),
          ofWriteFsync: against('write + fdatasync'),
          target: what === 'embedded log' ? '≥ 0.8 of raw SQLite' : null,
        }
      }),
    )
  })

const replay = (replayed: number): Promise<Row[]> =>
  inFolder(async (folder) => {
    const log = await openEmbeddedLog({ folder, schemas: { 'Bench.v1': '"bytes"' } })
    for (let i = 0; i < replayed; i += 1000)
      await log.append(Array.from({ length: 1000 }, (_, j) => record(keys[(i + j) % keys.length]!)))
    const read: number[] = []
    const subscribed: number[] = []
    for (let round = 0; round < 5; round++) {
      let records = 0
      const started = performance.now()
      for await (const batch of log.read('turns')) records += batch.length
      read.push((records / (performance.now() - started)) * 1000)
      const again = performance.now()
      const subscription = await log.subscribe({ topics: ['turns'], group: 'bench', from: 'start', handle: () => {} })
      await subscription.caughtUp()
      subscribed.push((replayed / (performance.now() - again)) * 1000)
      await subscription.stop()
    }
    await log.close()
    return [
      ['replay: read', read],
      ['replay: subscribe', subscribed],
    ].map(([what, rounds]): Row => ({
      what: what as string,
      callers: null,
      perSecond: median(rounds as number[]),
      ofRawSqlite: null,
      ofRawThread: null,
      ofWriteFsync: null,
      target: '≥ 100,000/s',
    }))
  })

export const bench = async ({ quick = false } = {}): Promise<Report> => {
  const machine = `${availableParallelism()} × ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.versions.node}, load ${loadavg()[0]!.toFixed(1)}`
  return {
    name: 'embedded log',
    machine,
    rows: [...(await appends(quick ? 3 : ROUNDS)), ...(await replay(quick ? 5_000 : REPLAYED))],
  }
}

if (import.meta.main) {
  const report = await bench()
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify(report))
  } else {
    console.log(report.machine)
    console.table(
      report.rows.map(({ what, callers, perSecond, ofRawSqlite, ofRawThread, ofWriteFsync, target }) => ({
        what,
        callers: callers ?? '',
        'records/s': Math.round(perSecond),
        'of raw SQLite': ofRawSqlite?.toFixed(2) ?? '',
        'of raw SQLite, own thread': ofRawThread?.toFixed(2) ?? '',
        'of write+fdatasync': ofWriteFsync?.toFixed(2) ?? '',
        target: target ?? '',
      })),
    )
  }
}
