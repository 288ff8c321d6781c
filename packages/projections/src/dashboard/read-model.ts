/** What the dashboard reads of the read model. Rows are plain JSON, with the columns of queries.ts. */
import type { QueryRow } from '../query.ts'
import type { ReaderLogin } from '../postgres/reader.ts'
import { inspectTables, type TablesFound } from '../inspect.ts'
import { Cached } from './cached.ts'
import { readLearning, type LearningFigures } from './learning.ts'
import * as queries from './queries.ts'
import { openReaderPool } from './reader-pool.ts'
import { Steady } from './steady.ts'
import { VersionMetrics } from './version-metrics.ts'

export type { QueryRow } from '../query.ts'
export type { Cursor, SessionFilter } from './queries.ts'
export { UNKNOWN_AGENT } from './queries.ts'
export type { LearningFigures } from './learning.ts'

type Rows = QueryRow[]
/** `next`: where the next page begins; null: this is the last one. */
export type Page = { rows: Rows; next: queries.Cursor | null }

/** Each method throws `postgres_failed`. `versions`, `lineage` and `learning` give the same object while nothing has changed. */
export type ReadModel = {
  /** Versions with their metrics, newest first: of the present head and lineage; counts at most `METRICS_MS` old. */
  versions(): Promise<Rows>
  /** The same of one version, with `gate_figures` and `update_figures`. */
  version(version: number): Promise<QueryRow | null>
  /** Updates, moves of the head, freezes, branches and rejected promotions, newest first; the judge of the newest score. */
  lineage(): Promise<Record<'updates' | 'moves' | 'freezes' | 'branches' | 'refusals' | 'judges', Rows>>
  batch(version: number): Promise<Rows>
  /** The batch that trained on a turn, and the turn's part of it; null: none did. */
  learnedFrom(turn: string): Promise<QueryRow | null>
  /** `adapter` and `since` of the update of this number, if the gate rejected it. */
  rejected(number: number): Promise<QueryRow | null>
  sessions(filter: queries.SessionFilter, after: queries.Cursor | null): Promise<Page>
  session(id: string): Promise<QueryRow | null>
  sessionTurns(id: string, after: queries.Cursor | null): Promise<Page>
  turn(id: string): Promise<QueryRow | null>
  group(session: string, id: string): Promise<Rows>
  /** Of the newest 100,000 scores and 1,000 batches. At most `METRICS_MS` old, or as `Cached` says. */
  learning(): Promise<LearningFigures>
  /** The server, its migrations, and how far its rows go. */
  inspect(): Promise<TablesFound>
  close(): Promise<void>
}

/** Age of aggregates over whole tables, in milliseconds, and of the lineage. */
const METRICS_MS = 10_000
const LINEAGE_MS = 1_000

export const openReadModel = (login: ReaderLogin, policy: string, monotonic: () => number): ReadModel => {
  const pool = openReaderPool(login)
  const rows = ({ sql, values }: queries.Query): Promise<Rows> => pool.rows(sql, values)
  const page = async (query: queries.Query, size: number, at: string, id: string): Promise<Page> => {
    const found = await rows(query)
    const last = found[size - 1]
    return {
      rows: found.slice(0, size),
      next: found.length > size && last ? { at: String(last[at]), id: String(last[id]) } : null,
    }
  }
  /** The number of the newest move of the head; each version that is published moves it. */
  const newest = (moves: Rows): number => Number(moves[0]?.['seq'] ?? -1)
  const metrics = new VersionMetrics(policy, rows)
  const [steadyVersions, steadyLineage, steadyLearning] = [
    new Steady<Rows>(),
    new Steady<Awaited<ReturnType<ReadModel['lineage']>>>(),
    new Steady<LearningFigures>(),
  ]
  const versions = new Cached(
    async () => ({ move: newest(await rows(queries.moves(policy))), of: steadyVersions.of(await metrics.read()) }),
    METRICS_MS,
    monotonic,
  )
  const lineage = new Cached(
    async () =>
      steadyLineage.of({
        updates: await rows(queries.updates(policy)),
        moves: await rows(queries.moves(policy)),
        freezes: await rows(queries.freezes(policy)),
        branches: await rows(queries.branches(policy)),
        refusals: await rows(queries.refusals(policy)),
        judges: await rows(queries.lastJudge(policy)),
      }),
    LINEAGE_MS,
    monotonic,
    false,
  )
  const learning = new Cached(async () => steadyLearning.of(await readLearning(policy, rows)), METRICS_MS, monotonic)
  const allVersions = async (): Promise<Rows> => {
    const move = newest((await lineage.get()).moves)
    return (await versions.get((value) => value.move >= move)).of
  }
  return {
    versions: allVersions,
    version: async (version) => {
      const row = (await allVersions()).find((one) => one['version'] === version)
      return row ? { ...row, ...(await rows(queries.versionFigures(policy, version)))[0] } : null
    },
    lineage: () => lineage.get(),
    learning: () => learning.get(),
    batch: (version) => rows(queries.batchTurns(policy, version)),
    learnedFrom: async (turn) => (await rows(queries.learnedFrom(policy, turn)))[0] ?? null,
    rejected: async (number) => (await rows(queries.rejected(policy, number)))[0] ?? null,
    sessions: async (filter, after) => {
      const { reason, agent } = filter
      const few = async (query: queries.Query): Promise<boolean> =>
        Number((await rows(query))[0]!['size']) < queries.RARE
      const query = queries.sessions(policy, filter, after, {
        reason: reason !== undefined && (await few(queries.reasonSize(policy, reason))),
        agent: agent !== undefined && (await few(queries.agentSize(policy, agent))),
      })
      return page(query, queries.PAGE, 'started_at', 'session_id')
    },
    session: async (id) => (await rows(queries.session(policy, id)))[0] ?? null,
    sessionTurns: (id, after) => page(queries.sessionTurns(policy, id, after), queries.TURNS, 'started_at', 'turn_id'),
    turn: async (id) => (await rows(queries.turn(policy, id)))[0] ?? null,
    group: (session, id) => rows(queries.group(policy, session, id)),
    inspect: () => inspectTables((sql) => pool.rows(sql, [])),
    close: () => pool.close(),
  }
}
