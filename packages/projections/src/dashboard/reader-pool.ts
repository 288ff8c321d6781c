/** Connections of the reader for the dashboard: fixed queries with parameters, each with a time limit. */
import { Pool } from 'pg'
import { InstarError } from '@instar/events/errors'
import type { ReaderLogin } from '../postgres/reader.ts'
import { isLoginRefused } from '../postgres/roles.ts'
import { parsers, type QueryRow } from '../query.ts'

export type ReaderPool = {
  /** The rows of one statement. Throws `postgres_failed`, also if the statement takes too long. */
  rows(sql: string, values: readonly unknown[]): Promise<QueryRow[]>
  close(): Promise<void>
}

const CONNECTIONS = 2
/** Time of one statement, and time for which a caller waits for a connection, in milliseconds. */
const STATEMENT_MS = 5_000
const CONNECTION_MS = 5_000

const open = ({ fallback: _, ...connection }: ReaderLogin, statementMs: number): Pool => {
  const pool = new Pool({
    ...connection,
    types: parsers,
    application_name: 'instar dashboard',
    options: '-c default_transaction_read_only=on',
    max: CONNECTIONS,
    connectionTimeoutMillis: CONNECTION_MS,
    statement_timeout: statementMs,
    query_timeout: 2 * statementMs,
    allowExitOnIdle: true,
  })
  // An idle connection that breaks is replaced by the next query.
  pool.on('error', () => undefined)
  return pool
}

/** Connects with the first query. Where the server refuses the reader's login, the fallback reads, in read-only sessions. */
export const openReaderPool = (login: ReaderLogin, statementMs = STATEMENT_MS): ReaderPool => {
  let pool = open(login, statementMs)
  let { fallback } = login
  const rows = async (sql: string, values: readonly unknown[]): Promise<QueryRow[]> => {
    try {
      return (await pool.query<QueryRow>(sql, [...values])).rows
    } catch (cause) {
      if (fallback && isLoginRefused(cause)) {
        const refused = pool
        pool = open(fallback, statementMs)
        fallback = undefined
        await refused.end()
        return rows(sql, values)
      }
      throw new InstarError('postgres_failed', `PostgreSQL: ${(cause as Error).message}`, {}, { cause })
    }
  }
  return { rows, close: () => pool.end() }
}
