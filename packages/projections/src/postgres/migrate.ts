/**
 * Applies the migrations of this build. An advisory lock serialises concurrent processes.
 *
 * All data can be rebuilt from the log. If the database has other migrations (of an unreleased build), its tables are
 * dropped and created again. If it has all migrations of this build and more, they are those of a newer build, and the
 * database is not changed.
 */
import { fileURLToPath } from 'node:url'
import {
  drizzle,
  getTableConfig,
  getViewConfig,
  is,
  migrate as apply,
  PgTable,
  PgView,
  readMigrationFiles,
} from '../drizzle.ts'
import type { Client } from 'pg'
import * as schema from '../schema.ts'
import { InstarError } from '@instar/events/errors'
import { offerReader } from './reader.ts'

export const MIGRATIONS = fileURLToPath(new URL('../../../../migrations', import.meta.url))
export const APPLIED = 'instar_migrations'

const OURS: readonly string[] = readMigrationFiles({ migrationsFolder: MIGRATIONS }).map(({ hash }) => hash)
/** An SQL condition: no newer build has migrated the database, so this build may write to it. */
export const STILL_OURS = `(select count(*) from public.${APPLIED}) <= ${OURS.length}`

/** Key of the advisory lock; an arbitrary number. */
const LOCK = 7_345_120

/** Milliseconds that a migration waits for a lock: the advisory lock, or a lock of a table. */
const LOCK_TIMEOUT_MS = 60_000

/**
 * Returns false without any change if a newer build has migrated the database. `readerPassword`: the password of the
 * reader role on an external server; null: none. Throws `postgres_failed` if another session holds a lock for
 * `lockTimeoutMs` milliseconds.
 */
export const migrate = async (
  client: Client,
  readerPassword: string | null = null,
  lockTimeoutMs = LOCK_TIMEOUT_MS,
): Promise<boolean> => {
  await client.query(`set lock_timeout = ${Math.trunc(lockTimeoutMs)}`)
  try {
    await client.query('select pg_advisory_lock($1)', [LOCK])
    try {
      return await applyMigrations(client, readerPassword)
    } finally {
      await client.query('select pg_advisory_unlock($1)', [LOCK])
    }
  } catch (cause) {
    if (!isLockTimeout(cause)) throw cause
    throw new InstarError(
      'postgres_failed',
      `the migration waited ${lockTimeoutMs / 1000} s for a lock of another PostgreSQL session; end that session. Sessions with locks: ${await lockHolders(client)}`,
      {},
      { cause },
    )
  } finally {
    await client.query('reset lock_timeout').catch(() => undefined)
  }
}

const applyMigrations = async (client: Client, readerPassword: string | null): Promise<boolean> => {
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

/** At most five sessions with locks, with their process ids (for pg_terminate_backend). */
const lockHolders = async (client: Client): Promise<string> => {
  const { rows } = await client.query<{ who: string }>(`
    select distinct format('%s (pid %s, %s)', a.usename, a.pid, a.application_name) as who
    from pg_locks l join pg_stat_activity a using (pid)
    where l.granted and l.locktype in ('advisory', 'relation') and a.datname = current_database() and a.pid <> pg_backend_pid()
    order by who limit 5`)
  return rows.map(({ who }) => who).join('; ') || 'none at this time'
}

/** Hashes of the applied migrations, in order. */
const appliedTo = async (client: Client): Promise<string[]> => {
  const {
    rows: [table],
  } = await client.query<{ found: boolean }>('select to_regclass($1) is not null as found', [`public.${APPLIED}`])
  if (!table?.found) return []
  return (await client.query<{ hash: string }>(`select hash from public.${APPLIED} order by id`)).rows.map(
    ({ hash }) => hash,
  )
}

/** Whether a newer build has migrated the database. */
export const isNewer = async (client: Client): Promise<boolean> => (await appliedTo(client)).length > OURS.length

const dropOurs = async (client: Client): Promise<void> => {
  for (const entity of Object.values(schema)) {
    if (is(entity, PgView)) await client.query(`drop view if exists public."${getViewConfig(entity).name}" cascade`)
  }
  for (const entity of Object.values(schema)) {
    if (is(entity, PgTable)) await client.query(`drop table if exists public."${getTableConfig(entity).name}" cascade`)
  }
  await client.query(`drop table if exists public.${APPLIED}`)
}
