/**
 * Brings a database to this build's tables and views. Two processes that start at once take turns.
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
import { offerReader } from './reader.ts'

export const MIGRATIONS = fileURLToPath(new URL('../../../../migrations', import.meta.url))
export const APPLIED = 'instar_migrations'

const OURS: readonly string[] = readMigrationFiles({ migrationsFolder: MIGRATIONS }).map(({ hash }) => hash)
/** True while the database is this build's to write to: SQL. */
export const STILL_OURS = `(select count(*) from public.${APPLIED}) <= ${OURS.length}`

/** Any number that no other program is likely to lock. */
const LOCK = 7_345_120

/**
 * False where a newer build has brought the database further: nothing was touched then. `readerPassword`: of the reader's
 * login in a server that is not ours; null: none.
 */
export const migrate = async (client: Client, readerPassword: string | null = null): Promise<boolean> => {
  await client.query('select pg_advisory_lock($1)', [LOCK])
  try {
    await client.query('set client_min_messages = warning')
    const applied = await appliedTo(client)
    if (applied.length > OURS.length) return false
    if (applied.length === 0 || !applied.every((hash, i) => hash === OURS[i])) await dropOurs(client)
    await apply(drizzle(client), { migrationsFolder: MIGRATIONS, migrationsSchema: 'public', migrationsTable: APPLIED })
    await offerReader(client, readerPassword)
    return true
  } finally {
    await client.query('select pg_advisory_unlock($1)', [LOCK])
  }
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
