/** Looking at the database of the read model without changing anything in it. */
import { readMigrationFiles } from 'drizzle-orm/migrator'
import type { Topic } from '@instar/events/flow'
import { APPLIED, MIGRATIONS } from './postgres/migrate.ts'
import type { ReaderLogin } from './postgres/reader.ts'
import { RULES } from './project.ts'
import { readOnlyQuery, type QueryRow } from './query.ts'

/**
 * `current`: this build's tables; `older`: a beginning of them; `none`: nothing of ours; `other`: what another build
 * made.
 */
export type Migrations = { state: 'current' | 'older' | 'none' | 'other'; applied: number; ours: number }

/**
 * The projection's position in a partition, and the id of the record before it. `current`: this build wrote the rows.
 */
export type StoredMark = { topic: Topic; partition: number; next: number; last: string; current: boolean }

/** Unfinished work of the live lines that a service has to do. `since`: ms since the epoch, of the oldest. */
export type PendingWork = { what: 'scores' | 'updates' | 'verdicts'; count: number; since: number | null }

export type DatabaseFound = {
  version: string
  /** Its clock between two of ours, ms since the epoch. */
  clock: { before: number; theirs: number; after: number }
  migrations: Migrations
  /** The next two are empty unless the migrations are current. */
  marks: StoredMark[]
  waiting: PendingWork[]
}

/** Throws `postgres_failed` when it cannot be reached. */
export const inspectDatabase = async (connection: ReaderLogin, now: () => number): Promise<DatabaseFound> => {
  const version = String((await readOnlyQuery(connection, 'select version()'))[0]?.version).split(' on ')[0]!
  const before = now()
  const [clock] = await readOnlyQuery(connection, 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms')
  const after = now()
  const migrations = await migrationsOf(connection)
  const current = migrations.state === 'current'
  return {
    version,
    clock: { before, theirs: Number(clock?.ms), after },
    migrations,
    marks: current
      ? (
          await readOnlyQuery(
            connection,
            'select topic, partition, next_offset, last_record_id, rules from offsets order by topic, partition',
          )
        ).map(markOf)
      : [],
    waiting: current
      ? await Promise.all(WAITING.map(async ([what, sql]) => waitingOf(what, await readOnlyQuery(connection, sql))))
      : [],
  }
}

const migrationsOf = async (connection: ReaderLogin): Promise<Migrations> => {
  const ours = readMigrationFiles({ migrationsFolder: MIGRATIONS })
  const [table] = await readOnlyQuery(connection, `select to_regclass('public.${APPLIED}') is not null as found`)
  if (table?.found !== true) return { state: 'none', applied: 0, ours: ours.length }
  const applied = await readOnlyQuery(connection, `select hash from public.${APPLIED} order by id`)
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

const ms = (expression: string): string => `(extract(epoch from min(${expression})) * 1000)::float8 as since`

const WAITING: readonly (readonly [PendingWork['what'], string])[] = [
  [
    'scores',
    `
    select count(*) as count, ${ms('coalesce(n.started_at, t.finished_at)')} from turns t left join turns n on n.turn_id = t.next_turn_id
    where t.next_state <> 'open' and t.kind = 'main' and t.status = 'complete' and t.trainable and strpos(t.policy, '~') = 0
      and not exists (select from all_scores s where s.policy = t.policy and s.turn_id = t.turn_id)`,
  ],
  ['updates', `select count(*) as count, ${ms('sealed_at')} from updates where status = 'sealed'`],
  ['verdicts', `select count(*) as count, ${ms('finished_at')} from updates where status = 'computed'`],
]

const waitingOf = (what: PendingWork['what'], [row]: QueryRow[]): PendingWork => ({
  what,
  count: Number(row?.count),
  since: row?.since === null ? null : Number(row?.since),
})
