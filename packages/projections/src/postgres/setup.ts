/** What the `setup` job does on PostgreSQL: the database, our tables and views, the reader's role. Safe to run again, by several at once. */
import { InstarError } from '@instar/events/errors'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { migrate } from './migrate.ts'
import type { Connection } from './start.ts'

const RETRY_MS = 500

/** Waits for a server that is still starting. Throws `postgres_failed` when it does not answer within `patience` ms. */
export const setupDatabase = async (connection: Connection, patience = 60_000): Promise<void> => {
  const until = Date.now() + patience
  for (;;) {
    const client = new Client({ ...connection, application_name: 'instar setup', connectionTimeoutMillis: 10_000 })
    client.on('error', () => undefined)
    try {
      await client.connect()
      await migrate(client)
      return
    } catch (cause) {
      if (!isPassing(cause)) throw cause
      if (Date.now() > until) throw new InstarError('postgres_failed', `PostgreSQL does not answer: ${(cause as Error).message}`, {}, { cause })
    } finally {
      await client.end()
    }
    await pause(RETRY_MS)
  }
}

/** No connection yet, or one that broke: classes 08 and 57P of SQLSTATE, or an error of the socket. */
const isPassing = (cause: unknown): boolean => {
  const code = (cause as { code?: string }).code ?? ''
  return /^(08|57P)/.test(code) || /^E[A-Z]+$/.test(code) || (cause as Error).message.includes('Connection terminated')
}
