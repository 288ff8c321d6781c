/** Inspects the database of the read model without changing it, for `instar doctor` and the dashboard. */
import { readMigrationFiles } from './drizzle.ts'
import type { Topic } from '@instar/events/flow'
import { APPLIED, MIGRATIONS } from './postgres/migrate.ts'
import type { ReaderLogin } from './postgres/reader.ts'
import { RULES } from './project.ts'
import { readOnlyQuery, type QueryRow } from './query.ts'

/**
 * `current`: all migrations of this build are applied; `older`: the first ones are; `none`: no migration is; `other`:
 * those of another build are. `applied`, `ours`: numbers of migrations.
 */
export type Migrations = { state: 'current' | 'older' | 'none' | 'other'; applied: number; ours: number }

/**
 * The position of a partition, and the id of the record before it. `current`: the rows follow the rules of this build.
 */
export type StoredMark = { topic: Topic; partition: number; next: number; last: string; current: boolean }

/**
 * Unfinished work of the live lines. `since`: time of the oldest, milliseconds since the epoch; null: there is none.
 */
export type PendingWork = { what: 'scores' | 'updates' | 'verdicts'; count: number; since: number | null }

export type DatabaseFound = {
  version: string
  /** The server's clock, and the local clock before and after reading it; milliseconds since the epoch. */
  clock: { before: number; theirs: number; after: number }
  migrations: Migrations
  /** `marks` and `waiting` are empty unless the migrations are current. */
  marks: StoredMark[]
  waiting: PendingWork[]
}

type Query = (sql: string) => Promise<QueryRow[]>
export type TablesFound = Pick<DatabaseFound, 'version' | 'migrations' | 'marks'>

/** Reads no table of the history. Throws as `query`. */
export const inspectTables = async (query: Query): Promise<TablesFound> => {
  const version = String((await query('select version()'))[0]?.version).split(' on ')[0]!
  const migrations = await migrationsOf(query)
  const marks =
    migrations.state === 'current'
      ? await query(
          'select topic, partition, next_offset, last_record_id, rules from offsets order by topic, partition',
        )
      : []
  return { version, migrations, marks: marks.map(markOf) }
}

/** `now`: the local clock. Throws `postgres_failed` if the server cannot be reached. */
export const inspectDatabase = async (connection: ReaderLogin, now: () => number): Promise<DatabaseFound> => {
  const query: Query = (sql) => readOnlyQuery(connection, sql)
  const found = await inspectTables(query)
  const before = now()
  const [clock] = await query('select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms')
  const after = now()
  return {
    ...found,
    clock: { before, theirs: Number(clock?.ms), after },
    waiting:
      found.migrations.state === 'current'
        ? await Promise.all(WAITING.map(async ([what, sql]) => waitingOf(what, await query(sql))))
        : [],
  }
}

const migrationsOf = async (query: Query): Promise<Migrations> => {
  const ours = readMigrationFiles({ migrationsFolder: MIGRATIONS })
  const [table] = await query(`select to_regclass('public.${APPLIED}') is not null as found`)
  if (table?.found !== true) return { state: 'none', applied: 0, ours: ours.length }
  const applied = await query(`select hash from public.${APPLIED} order by id`)
  const same = applied.every(({ hash }, i) => hash === ours[i]?.hash)
  return {
    state: !same ? 'other' : applied.length < ours.length ? 'older' : 'current',
    applied: applied.length,
    ours: ours.length,
  }
}

const markOf = (row: QueryRow): StoredMark => ({
  topic: row.topic as Topic,
  partition: Number(row.partition),
  next: Number(row.next_offset),
  last: String(row.last_record_id),
  current: row.rules === RULES,
})

const sinceMs = (expression: string): string => `(extract(epoch from min(${expression})) * 1000)::float8 as since`

const WAITING: readonly (readonly [PendingWork['what'], string])[] = [
  [
    'scores',
    `
    select count(*) as count, ${sinceMs('coalesce(n.started_at, t.finished_at)')} from turns t left join turns n on n.turn_id = t.next_turn_id
    where t.next_state <> 'open' and t.kind = 'main' and t.status = 'complete' and t.trainable and strpos(t.policy, '~') = 0
      and not exists (select from all_scores s where s.policy = t.policy and s.turn_id = t.turn_id)`,
  ],
  ['updates', `select count(*) as count, ${sinceMs('sealed_at')} from updates where status = 'sealed'`],
  ['verdicts', `select count(*) as count, ${sinceMs('finished_at')} from updates where status = 'computed'`],
]

const waitingOf = (what: PendingWork['what'], [row]: QueryRow[]): PendingWork => ({
  what,
  count: Number(row?.count),
  since: row?.since === null ? null : Number(row?.since),
})
