/**
 * Brings a database to this build's tables and views. Two processes that start at once take turns, by an advisory lock.
 *
 * Everything in there is a copy of the log: a database with another history of migrations (of a build that was never
 * released) loses our tables and gets new ones. A longer history is a newer build's, whose tables are left as they are.
 */
import { fileURLToPath } from 'node:url'
import { is } from 'drizzle-orm'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate as apply } from 'drizzle-orm/node-postgres/migrator'
import { getTableConfig, getViewConfig, PgTable, PgView } from 'drizzle-orm/pg-core'
import type { Client } from 'pg'
import * as schema from '../schema.ts'
import { InstarError } from '@instar/events/errors'
import { offerReader } from './reader.ts'

export const MIGRATIONS = fileURLToPath(new URL('../../../../migrations', import.meta.url))
export const APPLIED = 'instar_migrations'

const OURS: readonly string[] = readMigrationFiles({ migrationsFolder: MIGRATIONS }).map(({ hash }) => hash)
/** True while the database is this build's to write to: SQL. */
export const STILL_OURS = `(select count(*) from public.${APPLIED}) <= ${OURS.length}`

/** Any number that no other program is likely to lock. */
const LOCK = 7_345_120

/** Milliseconds that a migration waits for a lock: its own, or one of a table. */
const PATIENCE = 60_000

/**
 * False, with nothing changed, when a newer build has migrated the database further. `readerPassword`: of the
 * reader's login in a server of the user's; null: none. Throws `postgres_failed` when another session holds a lock
 * for `patience` ms.
 */
export const migrate = async (
  client: Client,
  readerPassword: string | null = null,
  patience = PATIENCE,
): Promise<boolean> => {
  await client.query(`set lock_timeout = ${Math.trunc(patience)}`)
  try {
    await client.query('select pg_advisory_lock($1)', [LOCK])
    try {
      return await brought(client, readerPassword)
    } finally {
      await client.query('select pg_advisory_unlock($1)', [LOCK])
    }
  } catch (cause) {
    if (!isLockTimeout(cause)) throw cause
    throw new InstarError(
      'postgres_failed',
      `a session of PostgreSQL has held a lock that the migration needs for ${patience / 1000} s; sessions with locks: ${await holders(client)}`,
      {},
      { cause },
    )
  } finally {
    await client.query('reset lock_timeout').catch(() => undefined)
  }
}

const brought = async (client: Client, readerPassword: string | null): Promise<boolean> => {
  await client.query('set client_min_messages = warning')
  const applied = await appliedTo(client)
  if (applied.length > OURS.length) return false
  if (applied.length === 0 || !applied.every((hash, i) => hash === OURS[i])) await dropOurs(client)
  await apply(drizzle(client), { migrationsFolder: MIGRATIONS, migrationsSchema: 'public', migrationsTable: APPLIED })
  await offerReader(client, readerPassword)
  return true
}

/** SQLSTATE lock_not_available; drizzle wraps PostgreSQL's error. */
const isLockTimeout = (error: unknown): boolean =>
  error instanceof Error && ((error as { code?: string }).code === '55P03' || isLockTimeout(error.cause))

/** Whom to ask, or to end with pg_terminate_backend: at most five. */
const holders = async (client: Client): Promise<string> => {
  const { rows } = await client.query<{ who: string }>(`
    select distinct format('%s (pid %s, %s)', a.usename, a.pid, a.application_name) as who
    from pg_locks l join pg_stat_activity a using (pid)
    where l.granted and l.locktype in ('advisory', 'relation') and a.datname = current_database() and a.pid <> pg_backend_pid()
    order by who limit 5`)
  return rows.map(({ who }) => who).join('; ') || 'none any more'
}

/** Hashes of the migrations that were applied, in their order. */
const appliedTo = async (client: Client): Promise<string[]> => {
  const {
    rows: [table],
  } = await client.query<{ found: boolean }>('select to_regclass($1) is not null as found', [`public.${APPLIED}`])
  if (!table?.found) return []
  return (await client.query<{ hash: string }>(`select hash from public.${APPLIED} order by id`)).rows.map(
    ({ hash }) => hash,
  )
}

/** Whether a newer build has brought the database further than this one does. */
export const isNewer = async (client: Client): Promise<boolean> => (await appliedTo(client)).length > OURS.length

const dropOurs = async (client: Client): Promise<void> => {
  for (const one of Object.values(schema)) {
    if (is(one, PgView)) await client.query(`drop view if exists public."${getViewConfig(one).name}" cascade`)
  }
  for (const one of Object.values(schema)) {
    if (is(one, PgTable)) await client.query(`drop table if exists public."${getTableConfig(one).name}" cascade`)
  }
  await client.query(`drop table if exists public.${APPLIED}`)
}
