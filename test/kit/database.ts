/** Common parts of the tests of the read model: a PostgreSQL of their own, and a digest of its contents. */
import { createHash } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import type { DatabaseConnection } from '@instar/projections'
import { TABLES } from '@instar/projections/schema'

/** A temporary folder with `Symbol.dispose`. */
export const temporaryFolder = (): Disposable & { path: string } => {
  const path = mkdtempSync(join(tmpdir(), 'instar-test-'))
  // When this process is root, the server runs as nobody and needs access.
  chmodSync(path, 0o711)
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** The superuser of an embedded server. */
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

/** sha256 of every row of every table, in the order of the rows' text, with offsets. */
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
