/**
 * Durable appends of 2 KB to the embedded log by 1, 32 and 256 concurrent callers, and replay. Compared, in interleaved
 * rounds of one run, with SQLite alone (same pragmas, same records per transaction, one plain table) on the calling
 * thread, where a flush blocks the event loop, and on a thread, and with write + fdatasync of the same bytes.
 */
import { openEmbeddedLog } from '@instar/log'
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { machine, median } from './machine.ts'
import { openRaw, openRawThread } from './peers/raw-sqlite.ts'

const RECORD_BYTES = 2048
const CALLERS = [1, 32, 256]
const ROUNDS = 51
const ROUND_MS = 60
/**
 * Warm-up in groups of 256 records: after a checkpoint SQLite overwrites its write-ahead file instead of extending it.
 */
const WARM_UP_GROUPS = 40
const REPLAY_RECORDS = 100_000

/** `ofRawSqlite`, `ofRawThread`, `ofWriteFsync`: ratio to the rate of the peer, median of the rounds' ratios. */
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

/** `append` resolves when `callers` records are durable. */
type Subject = { append(callers: number): Promise<void> | void; close(): Promise<void> | void }

const payload = Buffer.from(Array.from({ length: RECORD_BYTES }, (_, i) => (i * 7919 + (i >> 3) * 104729) & 255))
const record = (key: string) => ({ topic: 'turns' as const, key, schema: 'Bench.v1', payload, timestamp: Date.now() })
const keys = Array.from({ length: 256 }, (_, i) => `session-${i}`)

const embeddedLog = async (folder: string): Promise<Subject> => {
  const log = await openEmbeddedLog({ folder, schemas: { 'Bench.v1': '"bytes"' } })
  return {
    async append(callers) {
      await Promise.all(keys.slice(0, callers).map((key) => log.append([record(key)])))
    },
    close: () => log.close(),
  }
}

const rawSqlite = (folder: string): Subject => {
  const raw = openRaw(join(folder, 'raw.db'))
  return {
    append: (callers) => {
      raw.write(keys.slice(0, callers), () => payload)
    },
    close: () => {
      raw.close()
    },
  }
}

const rawThread = async (folder: string): Promise<Subject> => {
  const raw = await openRawThread(join(folder, 'thread.db'))
  return { append: (callers) => raw.write(keys.slice(0, callers), payload), close: () => raw.close() }
}

const writeFsync = (folder: string): Subject => {
  const file = openSync(join(folder, 'raw.bin'), 'w')
  const payloads = new Map(
    CALLERS.map((callers) => [callers, Buffer.concat(Array.from({ length: callers }, () => payload))]),
  )
  return {
    append(callers) {
      writeSync(file, payloads.get(callers)!)
      fdatasyncSync(file)
    },
    close: () => closeSync(file),
  }
}

const withFolder = async <T>(use: (folder: string) => Promise<T>): Promise<T> => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-bench-'))
  try {
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Resolves with records per second. */
const measure = async (subject: Subject, callers: number): Promise<number> => {
  const startedAt = performance.now()
  let records = 0
  let elapsed = 0
  while (elapsed < ROUND_MS) {
    await subject.append(callers)
    records += callers
    elapsed = performance.now() - startedAt
  }
  return (records / elapsed) * 1000
}

const measureAppends = (rounds: number): Promise<Row[]> =>
  withFolder(async (folder) => {
    const subjects: [string, Subject][] = [
      ['embedded log', await embeddedLog(folder)],
      ['raw SQLite', rawSqlite(folder)],
      ['raw SQLite, own thread', await rawThread(folder)],
      ['write + fdatasync', writeFsync(folder)],
    ]
    const rates = new Map<string, number[]>()
    for (let group = 0; group < WARM_UP_GROUPS; group++) for (const [, subject] of subjects) await subject.append(256)
    for (let round = -1; round < rounds; round++) {
      for (const callers of CALLERS) {
        for (const [what, subject] of subjects) {
          const perSecond = await measure(subject, callers)
          if (round >= 0) rates.set(`${what} ${callers}`, [...(rates.get(`${what} ${callers}`) ?? []), perSecond])
        }
      }
    }
    for (const [, subject] of subjects) await subject.close()
    return CALLERS.flatMap((callers) =>
      subjects.map(([what]): Row => {
        const own = rates.get(`${what} ${callers}`)!
        const ratioTo = (peer: string): number =>
          median(own.map((value, round) => value / rates.get(`${peer} ${callers}`)![round]!))
        return {
          what: `append: ${what}`,
          callers,
          perSecond: median(own),
          ofRawSqlite: ratioTo('raw SQLite'),
          ofRawThread: ratioTo('raw SQLite, own thread'),
          ofWriteFsync: ratioTo('write + fdatasync'),
          target: what === 'embedded log' ? '≥ 0.8 of raw SQLite' : null,
        }
      }),
    )
  })

const measureReplay = (replayed: number): Promise<Row[]> =>
  withFolder(async (folder) => {
    const log = await openEmbeddedLog({ folder, schemas: { 'Bench.v1': '"bytes"' } })
    for (let i = 0; i < replayed; i += 1000)
      await log.append(Array.from({ length: 1000 }, (_, j) => record(keys[(i + j) % keys.length]!)))
    const read: number[] = []
    const subscribed: number[] = []
    for (let round = 0; round < 5; round++) {
      let records = 0
      const readAt = performance.now()
      for await (const batch of log.read('turns')) records += batch.length
      read.push((records / (performance.now() - readAt)) * 1000)
      const subscribedAt = performance.now()
      const subscription = await log.subscribe({ topics: ['turns'], group: 'bench', from: 'start', handle: () => {} })
      await subscription.caughtUp()
      subscribed.push((replayed / (performance.now() - subscribedAt)) * 1000)
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
  const measuredOn = machine()
  return {
    name: 'embedded log',
    machine: measuredOn,
    rows: [...(await measureAppends(quick ? 3 : ROUNDS)), ...(await measureReplay(quick ? 5_000 : REPLAY_RECORDS))],
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
