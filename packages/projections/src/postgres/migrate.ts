/** Brings a database to this build's tables and views. Two processes that start at once take turns. */
import { fileURLToPath } from 'node:url'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate as apply } from 'drizzle-orm/node-postgres/migrator'
import type { Client } from 'pg'
import { offerReader } from './reader.ts'

const FOLDER = fileURLToPath(new URL('../../../../migrations', import.meta.url))

/** Any number that no other program is likely to lock. */
const LOCK = 7_345_120

export const migrate = async (client: Client): Promise<void> => {
  await client.query('select pg_advisory_lock($1)', [LOCK])
  try {
    await client.query('set client_min_messages = warning')
    await offerReader(client)
    await apply(drizzle(client), { migrationsFolder: FOLDER })
  } finally {
    await client.query('select pg_advisory_unlock($1)', [LOCK])
  }
}
