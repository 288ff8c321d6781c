/**
 * Golden snapshots: of each version of a service's state a file that a build of that version wrote, and the log from
 * which it was folded. `golden.ts` writes them.
 */
import type { Logged } from '@instar/events'
import {
  followEvents,
  openMemoryLog,
  openSnapshots,
  type Append,
  type EventLog,
  type Snapshot,
  type StateVersion,
} from '@instar/log'
import { fromBytes } from '../../packages/log/src/snapshots/value.ts'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { STATE_VERSION as PROJECTIONS } from '../../packages/projections/src/stored.ts'
import { STATE_VERSION as PUBLISHER } from '../../services/publisher/src/shell/snapshot.ts'
import { STATE_VERSION as SCORER } from '../../services/scorer/src/shell/snapshot.ts'
import { STATE_VERSION as TRAINER } from '../../services/trainer/src/shell/snapshot.ts'
import { auditFold } from '../../services/trainer/src/shell/stored-audit.ts'
import { ROOT } from '../../tools/tree.ts'
import { POLICY } from '../kit/histories.ts'
import { SERVICES, type Fold, type Service } from './services.ts'

export const FOLDER = join(import.meta.dirname, 'golden')
export const LOG = join(FOLDER, 'log.json.gz')
export const SOURCES = join(FOLDER, 'sources.json')
/** Of each topic's records, those that a golden snapshot has. */
export const SHARE = 0.6
/** Turns of a session in a row: few, so that sessions have further rows. */
export const ROW_TURNS = 4

const core = (service: string, files: readonly string[]): string[] => [
  ...files.map((file) => `services/${service}/src/core/${file}.ts`),
  `services/${service}/src/shell/snapshot.ts`,
]
/** The stored state's own sources of each service, beside the shared folds. */
const OWN = {
  scorer: core('scorer', [
    'state',
    'asked-alone',
    'claims',
    'duplicates',
    'episode-begins',
    'episode-ends',
    'episode-records',
    'missing-records',
    'own-record',
    'policy-bound',
    'need',
    'idle',
  ]),
  trainer: core('trainer', ['state', 'pending', 'told']),
  publisher: core('publisher', ['state']),
  projections: ['project', 'stored'].map((file) => `packages/projections/src/${file}.ts`),
  audit: ['core/audit-state', 'shell/stored-audit'].map((file) => `services/trainer/src/${file}.ts`),
} as const
export const VERSIONS = {
  scorer: SCORER,
  trainer: TRAINER,
  publisher: PUBLISHER,
  projections: PROJECTIONS,
  audit: auditFold.version,
}
export type Name = keyof typeof VERSIONS
export const NAMES = Object.keys(VERSIONS) as Name[]

type StoredService = Pick<Service, 'name' | 'topics'> & { stored(snapshot: Snapshot): Pick<Fold, 'evolve'> }
const AUDIT: StoredService = {
  name: 'audit',
  topics: ['turns', 'scores', 'updates', 'weights'],
  stored(snapshot) {
    const evolve = auditFold.on(snapshot, POLICY)
    return { evolve: (logged) => void evolve(logged) }
  },
}
export const serviceNamed = (name: Name): StoredService => [...SERVICES, AUDIT].find((one) => one.name === name)!
/** Where its STATE_VERSION is. */
export const versionFileOf = (name: Name): string => OWN[name].at(-1)!

/** Shared folds and how their states are stored; how tables are written is held by reading the golden files alone. */
const SHARED = [
  ...readdirSync(join(ROOT, 'packages/events/src/folds'))
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .sort()
    .map((file) => `packages/events/src/folds/${file}`),
  'packages/events/src/ids.ts',
  ...['folds', 'sessions', 'session-table', 'by-session'].map((file) => `packages/log/src/snapshots/${file}.ts`),
]

/** A digest of the shared sources and these, of which a stored state is a function, without comments, white space and the version. */
export const digestOfSources = (own: readonly string[]): string => {
  const hash = createHash('sha256')
  for (const path of [...SHARED, ...own])
    hash.update(
      `${readFileSync(join(ROOT, path), 'utf8')
        .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$|^export const STATE_VERSION.*$/gm, '')
        .replace(/\s+/g, ' ')
        .trim()}\n`,
    )
  return hash.digest('hex').slice(0, 16)
}
export const sourcesOf = (name: Name): string => digestOfSources(OWN[name])

/** By service, as recorded. */
export const recordedSources = (): Record<string, string> =>
  existsSync(SOURCES) ? (JSON.parse(readFileSync(SOURCES, 'utf8')) as Record<string, string>) : {}

export type Stored = Omit<Append, 'payload'> & { payload: string }

/** The log of the golden snapshots, in memory. `turns`: its partitions. `share`: the first of its records alone. */
export const goldenLog = async ({ turns, share = 1 }: { turns?: number; share?: number } = {}): Promise<EventLog> => {
  const stored = JSON.parse(gunzipSync(readFileSync(LOG)).toString()) as Stored[]
  const log = openMemoryLog(turns === undefined ? {} : { partitions: { turns } })
  const records = stored.slice(0, Math.floor(share * stored.length))
  await log.append(records.map((record) => ({ ...record, payload: Buffer.from(record.payload, 'base64') })))
  return log
}

/** The numbers of versions of which there is a golden snapshot, in order. */
export const goldenVersions = (name: Name): number[] =>
  readdirSync(FOLDER)
    .map((file) => new RegExp(`^${name}\\.(\\d+)\\.db\\.gz$`).exec(file)?.[1])
    .flatMap((number) => (number === undefined ? [] : [Number(number)]))
    .sort((a, b) => a - b)
export const fileOf = (name: Name, number: number): string => join(FOLDER, `${name}.${number}.db.gz`)

/** Which records are folded; of a partition those before the first one that is not. */
type Selection = (logged: Logged) => boolean

/** Of each topic the first SHARE of its records. */
export const firstShare = async (log: EventLog, name: Name): Promise<Selection> => {
  const left = new Map<string, number>()
  for (const topic of serviceNamed(name).topics) {
    let count = 0
    for await (const records of log.read(topic)) count += records.length
    left.set(topic, Math.floor(SHARE * count))
  }
  return ({ topic }) => {
    const most = left.get(topic)!
    left.set(topic, most - 1)
    return most > 0
  }
}

/** The records that a snapshot file has. */
const reachedBy = (path: string): Selection => {
  const db = new DatabaseSync(path, { readOnly: true })
  const { value } = db.prepare("SELECT value FROM meta WHERE name = 'reached'").get() as { value: string }
  db.close()
  // A checksum follows.
  const reached = new Map(
    (JSON.parse(value.slice(0, value.lastIndexOf(' '))) as [string, [number, { next: number }][]][]).map(
      ([topic, of]) => [topic, new Map(of)],
    ),
  )
  return ({ topic, partition, offset }) => offset < (reached.get(topic)?.get(partition)?.next ?? 0)
}

const KINDS = ['table', 'resident', 'queue', 'shortQueue', 'queues', 'list'] as const
export type Tables = Map<string, (typeof KINDS)[number]>

/** The tables that a state has in the snapshot, by name, from this call on. `turns`: it folds that topic. */
export const tablesOf = (snapshot: Snapshot, turns = true): Tables => {
  const tables: Tables = new Map(turns ? ['sessions', 'sessions turns'].map((name) => [name, 'table']) : [])
  for (const kind of KINDS) {
    const make = snapshot[kind].bind(snapshot) as (name: string, ...more: unknown[]) => unknown
    const value = (name: string, ...more: unknown[]): unknown => {
      tables.set(name, kind)
      return make(name, ...more)
    }
    Object.defineProperty(snapshot, kind, { value })
  }
  return tables
}

/** `read`: records that were folded after the snapshot. `rows`: of the file, decoded, by table. `tables`: of the state. */
export type Folded = { read: number; lines: string[]; rows: Rows; tables: Tables }
export type Rows = Record<string, Record<string, unknown>>

/** Folds the log with a snapshot in the folder, which is saved at the end. */
export const foldInto = async (
  log: EventLog,
  name: Name,
  folder: string,
  selection?: Selection,
  version: StateVersion = VERSIONS[name],
): Promise<Folded> => {
  const lines: string[] = []
  const settings = { records: 1e9, ms: Infinity, rowTurns: ROW_TURNS, logLine: (line: string) => lines.push(line) }
  const snapshot = openSnapshots(folder, settings).of(name, version)
  const service = serviceNamed(name)
  const tables = tablesOf(snapshot, service.topics.includes('turns'))
  const fold = service.stored(snapshot)
  let read = 0
  const follower = await followEvents(log, {
    name,
    topics: service.topics,
    from: await snapshot.open(log),
    onEvent(logged) {
      if (selection?.(logged) === false) return undefined
      read += 1
      fold.evolve(logged)
      return snapshot.after(logged)
    },
  })
  await follower.caughtUp()
  await follower.stop()
  await snapshot.close()
  return { read, lines, rows: rowsOf(join(folder, `${name}.db`), tables), tables }
}

const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

/** All rows, decoded. The order of a queue is that of the interleaving of topics, so that only its keys are here. */
export const rowsOf = (path: string, tables: Tables): Rows => {
  const db = new DatabaseSync(path, { readOnly: true })
  const rows: Rows = {}
  const add = (name: string, key: string, value: unknown): void => {
    rows[name] = { ...rows[name], [key]: value }
  }
  try {
    const entries = db
      .prepare('SELECT names.name, key, value FROM entries JOIN names ON names.id = entries.name ORDER BY 1, 2')
      .all() as { name: string; key: string; value: Uint8Array }[]
    for (const { name, key, value } of entries) {
      const bytes = Buffer.from(value).subarray(4)
      const plain = bytes.subarray(0, 4).equals(ZSTD) ? zstdDecompressSync(bytes) : bytes
      add(name, key, tables.get(name) === 'shortQueue' || fromBytes(plain))
    }
    const queued = db
      .prepare('SELECT names.name, key FROM queued JOIN names ON names.id = queued.name ORDER BY 1, 2')
      .all() as { name: string; key: string }[]
    for (const { name, key } of queued) add(name, key, true)
    return rows
  } finally {
    db.close()
  }
}

/** Runs `work` with a folder that holds the golden snapshot of the version, or none. */
export const inFolder = async <T>(
  name: Name,
  number: number | null,
  work: (folder: string) => Promise<T>,
): Promise<T> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-golden-'))
  try {
    if (number !== null) writeFileSync(join(folder, `${name}.db`), gunzipSync(readFileSync(fileOf(name, number))))
    return await work(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Of a golden snapshot. `golden`: as this build opens it. */
type Compared = {
  golden: Folded
  /** This build's fold of the records that the snapshot has. */
  again: Folded
  /** The log from the snapshot on, and from its start. */
  from: Folded
  whole: Folded
}

export const compared = async (log: EventLog, name: Name, number: number): Promise<Compared> => ({
  golden: await inFolder(name, number, (folder) => foldInto(log, name, folder, () => false)),
  again: await inFolder(name, number, async (folder) => {
    const selection = reachedBy(join(folder, `${name}.db`))
    return inFolder(name, null, (empty) => foldInto(log, name, empty, selection))
  }),
  from: await inFolder(name, number, (folder) => foldInto(log, name, folder)),
  whole: await inFolder(name, null, (folder) => foldInto(log, name, folder)),
})

/** Of records of a later version than the golden log has; `snapshots.features.ts` keeps and reads it. */
const LATER = ['places', 'further places', 'begins', 'ends', 'told', 'says']

/** The tables of the state of which the golden snapshot has no row of any policy, without those of later records. */
export const emptyTables = ({ golden, from }: Pick<Compared, 'golden' | 'from'>): string[] => {
  const ofAny = (name: string): string => name.replace(/ (policy|policy~again|other)$/, '')
  const filled = Object.keys(golden.rows)
  return [...from.tables].flatMap(([name, kind]) =>
    [...filled, ...LATER].some((one) => ofAny(one) === ofAny(name) || (kind === 'queues' && one.startsWith(`${name} `)))
      ? []
      : [name],
  )
}
