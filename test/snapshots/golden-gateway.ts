/**
 * Golden snapshots of the gateway: of each version its two files and the folder of names beside the first, folded from the log
 * of golden-states.ts with few sessions and names, so that sessions are evicted and names expire.
 */
import { openSnapshots, type EventLog, type Snapshot } from '@instar/log'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { HeldNames } from '../../services/gateway/src/session/core/held-names.ts'
import {
  applyEntry,
  type ListEntry,
  type ListedSession,
} from '../../services/gateway/src/session/core/listed-sessions.ts'
import { levelFolder, openLevelRows } from '../../services/gateway/src/session/level-rows.ts'
import { generationPrefix } from '../../services/gateway/src/session/name-rows.ts'
import { openSnapshot, STATE_VERSION, type GatewayVersion } from '../../services/gateway/src/session/snapshot.ts'
import { POLICY } from '../kit/histories.ts'
import { liveGateway } from './gateway.ts'
import { digestOfSources, FOLDER, goldenLog, ROW_TURNS, rowsOf, SHARE, tablesOf, type Folded } from './golden-states.ts'

/** Fewer than the golden log has. */
export const LIMITS = { sessions: 12, turns: 80 }
const NAME_BYTES = 6_000

const SESSION = 'services/gateway/src/session'
export const GATEWAY_VERSION_FILE = `${SESSION}/snapshot.ts`
export const sourcesOfGateway = (): string =>
  digestOfSources([
    ...['core/session-index', 'core/stored-turns', 'core/names', 'core/listed-sessions', 'core/held-names'].map(
      (file) => `${SESSION}/${file}.ts`,
    ),
    ...['name-rows', 'name-table', 'snapshot'].map((file) => `${SESSION}/${file}.ts`),
    'packages/dialects/src/minted.ts',
    'packages/events/src/answer-in-text.ts',
  ])

const PARTS = ['turns', 'weights'] as const
type Part = (typeof PARTS)[number]
const snapshotPath = (folder: string, part: Part): string => join(folder, `gateway.${POLICY}.${part}.db`)

/** `names`: rows of the table of names in hex, and its mark. `read`: records that were folded after the snapshot. */
export type FoldedGateway = Record<Part, Omit<Folded, 'read' | 'lines'>> & {
  names: string[]
  mark: string | null
  recent: number
  expired: number
  read: number
  lines: string[]
}

/** Folds the log with the snapshot in the folder, which is saved at the end. */
export const foldGateway = async (
  log: EventLog,
  folder: string,
  version: GatewayVersion = STATE_VERSION,
): Promise<FoldedGateway> => {
  const lines: string[] = []
  const logLine = (line: string): void => void lines.push(line)
  const store = openSnapshots(folder, { records: 1e9, ms: Infinity, rowTurns: ROW_TURNS, logLine })
  const tables = new Map<string, Folded['tables']>()
  const stored = new Map<string, Snapshot>()
  const snapshot = openSnapshot(
    {
      of(name, of) {
        const made = store.of(name, of)
        tables.set(name, tablesOf(made))
        stored.set(name, made)
        return made
      },
    },
    POLICY,
    LIMITS,
    {
      limits: { ms: 1e15, bytes: NAME_BYTES },
      now: () => 0,
      open: (path) => openLevelRows(path, logLine),
      logLine,
    },
    version,
  )
  let read = 0
  const counted = {
    ...snapshot,
    after: (logged: Parameters<typeof snapshot.after>[0]) => ((read += 1), snapshot.after(logged)),
  }
  const { recent, expired, paths } = await liveGateway(
    log,
    null,
    LIMITS,
    {},
    async () => ({
      recent: snapshot.index.recent.size,
      expired: snapshot.names!.figures().expired,
      // Beside the file of another build, the version is in the name.
      paths: new Map([...stored].map(([name, { path }]) => [name, path!])),
    }),
    counted,
  )
  const partOf = (part: Part): FoldedGateway[Part] => ({
    rows: rowsOf(paths.get(`gateway.${POLICY}.${part}`)!, new Map()),
    // `tablesOf` counts those of sessions to every state.
    tables: new Map(
      [...tables.get(`gateway.${POLICY}.${part}`)!].filter(
        ([name]) => part === 'turns' || !name.startsWith('sessions'),
      ),
    ),
  })
  const turns = partOf('turns')
  return {
    turns,
    weights: partOf('weights'),
    ...(await namesIn(paths.get(`gateway.${POLICY}.turns`)!, turns.rows['held names']!['held'] as HeldNames)),
    recent,
    expired,
    read,
    lines,
  }
}

/** Of the generations that are held: the next start removes others. */
const namesIn = async (path: string, held: HeldNames): Promise<Pick<FoldedGateway, 'names' | 'mark'>> => {
  const rows = (await openLevelRows(path, () => undefined))!
  try {
    const names = await Promise.all(held.generations.map(({ number }) => rows.lastUnder(generationPrefix(number), 1e6)))
    return { names: names.flat().map((row) => Buffer.from(row).toString('hex')), mark: await rows.mark() }
  } finally {
    await rows.close()
  }
}

/** The numbers of versions of which there is a golden snapshot, in order. */
export const goldenGateways = (): number[] =>
  readdirSync(FOLDER)
    .flatMap((file) => /^gateway\.(\d+)\.json\.gz$/.exec(file)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b)
const fileOf = (number: number): string => join(FOLDER, `gateway.${number}.json.gz`)

/** Files that LevelDB makes anew. */
const LOCAL = /^(LOCK|LOG|LOG\.old)$/

/** Runs `work` with a folder that holds the golden snapshot of the version, or none. */
export const inGatewayFolder = async <T>(number: number | null, work: (folder: string) => Promise<T>): Promise<T> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-golden-'))
  try {
    const files = number === null ? {} : JSON.parse(gunzipSync(readFileSync(fileOf(number))).toString())
    for (const [path, base64] of Object.entries(files as Record<string, string>)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), Buffer.from(base64, 'base64'))
    }
    return await work(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Of a golden snapshot. `golden`: as this build opens it. `again`: this build's fold of the same records. */
type ComparedGateway = Record<'golden' | 'again' | 'from' | 'whole', FoldedGateway>

/** One partition of turns, so that a fold that continues reads in the order of one from the start. */
export const comparedGateway = async (number: number, version?: GatewayVersion): Promise<ComparedGateway> => {
  const [log, first] = [await goldenLog({ turns: 1 }), await goldenLog({ turns: 1, share: SHARE })]
  return {
    golden: await inGatewayFolder(number, (folder) => foldGateway(first, folder, version)),
    again: await inGatewayFolder(null, (folder) => foldGateway(first, folder, version)),
    from: await inGatewayFolder(number, (folder) => foldGateway(log, folder, version)),
    whole: await inGatewayFolder(null, (folder) => foldGateway(log, folder, version)),
  }
}

/** What the state is, without how it came about. */
export const stateOf = ({ turns, weights, names }: FoldedGateway) => [
  { ...turns.rows, recent: recentOf(turns.rows['recent']) },
  weights.rows,
  names.toSorted(),
]

/** The recent sessions in their order, from the rows of the entries of their list. */
const recentOf = (rows: Readonly<Record<string, unknown>> = {}): ListedSession[] => {
  const list = new Map<string, ListedSession>()
  for (const key of Object.keys(rows).sort()) for (const entry of rows[key] as ListEntry[]) applyEntry(list, entry)
  return [...list.values()]
}

export const writeGoldenGateway = async (number: number, version?: GatewayVersion): Promise<boolean> => {
  if (existsSync(fileOf(number))) return false
  await inGatewayFolder(null, async (folder) => {
    await foldGateway(await goldenLog({ turns: 1, share: SHARE }), folder, version)
    const names = levelFolder(snapshotPath(folder, 'turns'))
    const paths = [...PARTS.map((part) => snapshotPath(folder, part)), ...readdirSync(names).map((f) => join(names, f))]
    const files = paths
      .filter((path) => statSync(path).isFile() && !LOCAL.test(path.slice(names.length + 1)))
      .map((path) => [path.slice(folder.length + 1), readFileSync(path).toString('base64')])
    writeFileSync(fileOf(number), gzipSync(JSON.stringify(Object.fromEntries(files))))
  })
  return true
}
