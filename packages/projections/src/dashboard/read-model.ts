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

/** `next`: the time up to which `older` has further rows; those after it are all here. Null: there are none. */
export type LineageRows = Record<'updates' | 'moves' | 'freezes' | 'branches' | 'refusals' | 'judges', Rows> & {
  next: string | null
}

/** Rows of the lineage in one answer, of one of older ones, and the time of a statement in milliseconds. */
export type ReadLimits = { lineage: number; older: number; statementMs?: number }

/** Each method throws `postgres_failed`. `versions`, `lineage` and `learning` give the same object while nothing has changed. */
export type ReadModel = {
  /** Versions with their metrics, newest first: of the present head and lineage; counts at most `METRICS_MS` old. */
  versions(): Promise<Rows>
  /** The same of one version, with `gate_figures` and `update_figures`. */
  version(version: number): Promise<QueryRow | null>
  /** Updates, moves of the head, freezes, branches and rejected promotions, newest first; the judge of the newest score. */
  lineage(): Promise<LineageRows>
  /** Versions with their metrics, and the events, up to a time; figures as they were when first asked for. */
  older(until: string): Promise<Omit<LineageRows, 'branches' | 'judges'> & { versions: Rows }>
  /** The turns of its batch from the one at place `from` on; `next`: where further ones begin. */
  batch(version: number, from?: number): Promise<{ rows: Rows; next: number | null }>
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

/** The latest of the times at which lists of `most` rows end; null: none has as many. */
const endOf = (lists: readonly [rows: Rows, at: string][], most: number): string | null => {
  const ends = lists.flatMap(([rows, at]) => (rows.length >= most ? [String(rows.at(-1)![at])] : []))
  return ends.toSorted().at(-1) ?? null
}

export const openReadModel = (
  login: ReaderLogin,
  policy: string,
  monotonic: () => number,
  limits: ReadLimits = { lineage: queries.LINEAGE, older: queries.OLDER },
): ReadModel => {
  const pool = openReaderPool(login, limits.statementMs)
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
  const metrics = new VersionMetrics(policy, rows, limits.lineage)
  const eventsOf = async (span: queries.Span) => {
    const [updates, moves] = [await rows(queries.updates(policy, span)), await rows(queries.moves(policy, span))]
    const [freezes, refusals] = [await rows(queries.freezes(policy, span)), await rows(queries.refusals(policy, span))]
    const lists: [Rows, string][] = [
      [updates, 'sealed_at'],
      [moves, 'at'],
      [freezes, 'at'],
      [refusals, 'at'],
    ]
    return { updates, moves, freezes, refusals, next: endOf(lists, span.most) }
  }
  const [steadyVersions, steadyLineage, steadyLearning] = [
    new Steady<Rows>(),
    new Steady<LineageRows>(),
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
        ...(await eventsOf({ until: null, most: limits.lineage })),
        branches: await rows(queries.branches(policy)),
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
      const row = (await allVersions()).find((one) => one['version'] === version) ?? (await metrics.one(version))
      return row ? { ...row, ...(await rows(queries.versionFigures(policy, version)))[0] } : null
    },
    lineage: () => lineage.get(),
    older: async (until) => {
      const span = { until, most: limits.older }
      const { next, ...events } = await eventsOf(span)
      return { versions: await metrics.older(span), ...events, next: next === until ? null : next }
    },
    learning: () => learning.get(),
    batch: async (version, from = 0) => {
      const found = await rows(queries.batchTurns(policy, version, from))
      return {
        rows: found.slice(0, queries.TURNS),
        next: found.length > queries.TURNS ? from + queries.TURNS : null,
      }
    },
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
