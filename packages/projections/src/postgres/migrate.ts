/**
 * Brings a database to this build's tables and views. Two processes that start at once take turns.
 *
 * Everything in there is a copy of the log: a database whose history of migrations is not a beginning of
 * this build's (an older or a newer build, or one that was never released) loses our tables and gets new ones.
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

/** Any number that no other program is likely to lock. */
const LOCK = 7_345_120

export const migrate = async (client: Client): Promise<void> => {
  await client.query('select pg_advisory_lock($1)', [LOCK])
  try {
    await client.query('set client_min_messages = warning')
    await offerReader(client)
    if (!await isOnOurPath(client)) await dropOurs(client)
    await apply(drizzle(client), { migrationsFolder: MIGRATIONS, migrationsSchema: 'public', migrationsTable: APPLIED })
  } finally {
    await client.query('select pg_advisory_unlock($1)', [LOCK])
  }
}

const isOnOurPath = async (client: Client): Promise<boolean> => {
  const { rows: [table] } = await client.query<{ found: boolean }>('select to_regclass($1) is not null as found', [`public.${APPLIED}`])
  if (!table?.found) return false
  const { rows: applied } = await client.query<{ hash: string }>(`select hash from public.${APPLIED} order by id`)
  const ours = readMigrationFiles({ migrationsFolder: MIGRATIONS })
  return applied.every(({ hash }, i) => hash === ours[i]?.hash)
}

const dropOurs = async (client: Client): Promise<void> => {
  for (const one of Object.values(schema)) {
    if (is(one, PgView)) await client.query(`drop view if exists public."${getViewConfig(one).name}" cascade`)
  }
  for (const one of Object.values(schema)) {
    if (is(one, PgTable)) await client.query(`drop table if exists public."${getTableConfig(one).name}" cascade`)
  }
  await client.query(`drop table if exists public.${APPLIED}`)
}
