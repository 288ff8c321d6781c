/** What the tests of this folder share: a PostgreSQL of their own, a digest of everything in it. */
import { createHash } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import type { DatabaseConnection } from '@instar/projections'
import { TABLES } from '@instar/projections/schema'

/** A folder that disposes of itself. */
export const temporaryFolder = (): Disposable & { path: string } => {
  const path = mkdtempSync(join(tmpdir(), 'instar-test-'))
  // As root the server runs as nobody, who may then enter.
  chmodSync(path, 0o711)
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** Who may do anything in an embedded server. */
export const adminOf = (connection: DatabaseConnection): DatabaseConnection => ({
  ...connection,
  user: 'postgres',
  database: 'postgres',
})

export const withClient = async <T>(
  connection: DatabaseConnection,
  work: (client: Client) => Promise<T>,
): Promise<T> => {
  const client = new Client(connection)
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** sha256 over every row of every table, in the order of the rows' text; offsets too. */
export const digests = (connection: DatabaseConnection): Promise<Record<string, string>> =>
  withClient(connection, async (client) => {
    const result: Record<string, string> = {}
    for (const table of [...Object.keys(TABLES), 'offsets']) {
      const { rows } = await client.query<{ line: string }>(
        `select t::text as line from "${table}" t order by t::text collate "C"`,
      )
      const hash = createHash('sha256')
      for (const { line } of rows) hash.update(`${line}\n`)
      result[table] = `${rows.length} rows ${hash.digest('hex')}`
    }
    return result
  })
