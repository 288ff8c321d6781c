/**
 * Golden snapshots: of each version of a service's state a file that a build of that version wrote, and the log from
 * which it was folded. As a program, `node bootstrap.cjs test/snapshots/golden.ts`, it writes those of versions that have none, and
 * records the digests of the folds' sources after a change under which every golden snapshot still holds.
 */
import { encodeEvent } from '@instar/events'
import { followEvents, openMemoryLog, openSnapshots, type Append, type EventLog } from '@instar/log'
import { fromBytes } from '../../packages/log/src/snapshots/value.ts'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { isDeepStrictEqual } from 'node:util'
import { gunzipSync, gzipSync, zstdDecompressSync } from 'node:zlib'
import { STATE_VERSION as PUBLISHER } from '../../services/publisher/src/shell/snapshot.ts'
import { STATE_VERSION as SCORER } from '../../services/scorer/src/shell/snapshot.ts'
import { STATE_VERSION as TRAINER } from '../../services/trainer/src/shell/snapshot.ts'
import { ROOT } from '../../tools/tree.ts'
import { randomHistory } from '../kit/histories.ts'
import { seeded } from '../kit/random.ts'
import { SERVICES, type Service } from './services.ts'

const FOLDER = join(import.meta.dirname, 'golden')
const LOG = join(FOLDER, 'log.json.gz')
const SOURCES = join(FOLDER, 'sources.json')
/** Records of the log, and of its topics those that a golden snapshot has. */
const RECORDS = 400
const SHARE = 0.6

/** The stored state's own sources of each service, beside the shared folds. */
const OWN = {
  scorer: ['state', 'asked-alone', 'claims', 'duplicates', 'own-record', 'policy-bound', 'need', 'idle'],
  trainer: ['state', 'pending'],
  publisher: ['state'],
} as const
export const VERSIONS = { scorer: SCORER, trainer: TRAINER, publisher: PUBLISHER }
export type Name = keyof typeof VERSIONS
export const NAMES = Object.keys(VERSIONS) as Name[]
export const serviceNamed = (name: Name): Service => SERVICES.find((one) => one.name === name)!

/** Shared folds and how their states are stored; how tables are written is held by reading the golden files alone. */
const SHARED = [
  ...readdirSync(join(ROOT, 'packages/events/src/folds'))
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .sort()
    .map((file) => `packages/events/src/folds/${file}`),
  'packages/events/src/ids.ts',
  ...['folds', 'sessions', 'session-table', 'by-session'].map((file) => `packages/log/src/snapshots/${file}.ts`),
]

/** A digest of the sources of which the stored state is a function, without comments, white space and the version. */
export const sourcesOf = (name: Name): string => {
  const own = [...OWN[name].map((file) => `core/${file}`), 'shell/snapshot']
  const hash = createHash('sha256')
  for (const path of [...SHARED, ...own.map((file) => `services/${name}/src/${file}.ts`)])
    hash.update(
      `${readFileSync(join(ROOT, path), 'utf8')
        .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$|^export const STATE_VERSION.*$/gm, '')
        .replace(/\s+/g, ' ')
        .trim()}\n`,
    )
  return hash.digest('hex').slice(0, 16)
}

export const recordedSources = (): Partial<Record<Name, string>> =>
  existsSync(SOURCES) ? (JSON.parse(readFileSync(SOURCES, 'utf8')) as Partial<Record<Name, string>>) : {}

type Stored = Omit<Append, 'payload'> & { payload: string }

/** The log of the golden snapshots, in memory. */
export const goldenLog = async (): Promise<EventLog> => {
  const stored = JSON.parse(gunzipSync(readFileSync(LOG)).toString()) as Stored[]
  const log = openMemoryLog()
  await log.append(stored.map((record) => ({ ...record, payload: Buffer.from(record.payload, 'base64') })))
  return log
}

/** The numbers of versions of which there is a golden snapshot, in order. */
export const goldenVersions = (name: Name): number[] =>
  readdirSync(FOLDER)
    .map((file) => new RegExp(`^${name}\\.(\\d+)\\.db\\.gz$`).exec(file)?.[1])
    .flatMap((number) => (number === undefined ? [] : [Number(number)]))
    .sort((a, b) => a - b)
const fileOf = (name: Name, number: number): string => join(FOLDER, `${name}.${number}.db.gz`)

/** `read`: records that were folded after the snapshot. `rows`: of the file, decoded. */
export type Folded = { read: number; lines: string[]; rows: Record<string, unknown> }

/** Folds the log with a snapshot in the folder, which is saved at the end; at most `most` records of each topic. */
export const foldInto = async (log: EventLog, name: Name, folder: string, most = Infinity): Promise<Folded> => {
  const lines: string[] = []
  const snapshot = openSnapshots(folder, { records: 1e9, ms: Infinity, logLine: (line) => lines.push(line) }).of(
    name,
    VERSIONS[name],
  )
  const service = serviceNamed(name)
  const fold = service.stored(snapshot)
  const counts = new Map<string, number>()
  let read = 0
  const follower = await followEvents(log, {
    name,
    topics: service.topics,
    from: await snapshot.open(log),
    onEvent(logged) {
      const count = (counts.get(logged.topic) ?? 0) + 1
      counts.set(logged.topic, count)
      if (count > most) return undefined
      read += 1
      fold.evolve(logged)
      return snapshot.after(logged)
    },
  })
  await follower.caughtUp()
  await follower.stop()
  await snapshot.close()
  return { read, lines, rows: rowsOf(join(folder, `${name}.db`)) }
}

const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

/** All rows, decoded. The order of a queue is that of the interleaving of topics, so that its keys are sorted. */
const rowsOf = (path: string): Record<string, unknown> => {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    const entries = db
      .prepare('SELECT names.name, key, value FROM entries JOIN names ON names.id = entries.name')
      .all() as { name: string; key: string; value: Uint8Array }[]
    const queued = db.prepare('SELECT names.name, key FROM queued JOIN names ON names.id = queued.name').all() as {
      name: string
      key: string
    }[]
    const decoded = entries.map(({ name, key, value }) => {
      const bytes = Buffer.from(value).subarray(4)
      const plain = bytes.subarray(0, 4).equals(ZSTD) ? zstdDecompressSync(bytes) : bytes
      return [`${name} ${key}`, fromBytes(plain)] as const
    })
    return Object.fromEntries(
      [...decoded, ...queued.map(({ name, key }) => [`queue ${name} ${key}`, true] as const)].sort(([a], [b]) =>
        a < b ? -1 : 1,
      ),
    )
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

/** The log from its start, and from the golden snapshot of a version: the same rows, and the snapshot was used. */
export const continued = async (log: EventLog, name: Name, number: number): Promise<[from: Folded, whole: Folded]> => [
  await inFolder(name, number, (folder) => foldInto(log, name, folder)),
  await inFolder(name, null, (folder) => foldInto(log, name, folder)),
]

const write = async (): Promise<void> => {
  if (!existsSync(LOG)) {
    const records = randomHistory(seeded(16), RECORDS).events.map((event): Stored => {
      const { topic, key, schema, payload, timestamp } = encodeEvent(event)
      return { topic, key, schema, payload: Buffer.from(payload).toString('base64'), timestamp }
    })
    writeFileSync(LOG, gzipSync(JSON.stringify(records)))
  }
  const log = await goldenLog()
  const sources = recordedSources()
  for (const name of NAMES) {
    const { number } = VERSIONS[name]
    if (!goldenVersions(name).includes(number)) {
      await inFolder(name, null, async (folder) => {
        await foldInto(log, name, folder, Math.floor((SHARE * RECORDS) / serviceNamed(name).topics.length))
        writeFileSync(fileOf(name, number), gzipSync(readFileSync(join(folder, `${name}.db`))))
      })
      console.log(`${name}: golden snapshot of version ${number} written`)
    }
    const [from, whole] = await continued(log, name, number)
    if (!isDeepStrictEqual(from.rows, whole.rows) || from.read >= whole.read)
      throw new Error(`${name}: the state of version ${number} has changed: raise STATE_VERSION in shell/snapshot.ts`)
    sources[name] = sourcesOf(name)
  }
  writeFileSync(SOURCES, `${JSON.stringify(sources, null, 2)}\n`)
}

if (process.argv[1] === import.meta.filename) await write()
