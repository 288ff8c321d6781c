/** What `instar sql` runs: one statement that can only read. */
import { Client, types, type CustomTypesConfig, type QueryArrayConfig } from 'pg'
import { InstarError } from '@instar/events/errors'
import { READER, READER_TIMEOUT } from './postgres/reader.ts'
import type { Connection } from './postgres/start.ts'

export type Row = Record<string, unknown>

const numberWhenExact = (text: string): number | string => {
  const value = Number(text)
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? text : value
}

const isoWhenFinite = (text: string): string => (text.includes('infinity') ? text : new Date(text).toISOString())

/** int8 and numeric as numbers where a number holds them, times as ISO text, bytes as hex. */
const PARSERS = new Map<number, (text: string) => unknown>([
  [types.builtins.INT8, numberWhenExact],
  [types.builtins.NUMERIC, numberWhenExact],
  [types.builtins.TIMESTAMPTZ, isoWhenFinite],
  [types.builtins.TIMESTAMP, (text) => text],
  [types.builtins.DATE, (text) => text],
  [types.builtins.INTERVAL, (text) => text],
  [types.builtins.BYTEA, (text) => text.replace(/^\\x/, '')],
])

const parsers: CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => (format === 'binary' ? undefined : PARSERS.get(oid)) ?? types.getTypeParser(oid, format as 'text')) as CustomTypesConfig['getTypeParser'],
}

/** Names as they are, but for those that came before: `count`, `count_2`. */
const distinct = (names: readonly string[]): string[] => {
  const taken = new Set<string>()
  return names.map((name) => {
    let free = name
    for (let i = 2; taken.has(free); i += 1) free = `${name}_${i}`
    taken.add(free)
    return free
  })
}

/**
 * The rows of one statement in a READ ONLY transaction that is rolled back; of columns with one name the second is
 * `name_2`. Throws `bad_sql` with
 * PostgreSQL's own words for what it refuses, several statements and writing among them; `postgres_failed`
 * when there is no connection.
 */
export const readOnlyQuery = async (connection: Connection, sql: string, options: { timeoutMs?: number } = {}): Promise<Row[]> => {
  const client = new Client({ ...connection, types: parsers, application_name: 'instar sql', connectionTimeoutMillis: 10_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
  } catch (cause) {
    await client.end()
    throw new InstarError('postgres_failed', `PostgreSQL cannot be reached: ${(cause as Error).message}`, {}, { cause })
  }
  try {
    await client.query('begin transaction read only')
    await client.query(`set local statement_timeout = ${Math.trunc(options.timeoutMs ?? READER_TIMEOUT)}`)
    // Whoever we are, the reader's rights will do. After a first query the transaction can no longer be made a writing one.
    await client.query(`select set_config('role', rolname, true) from pg_roles where rolname = '${READER}' and pg_has_role(current_user, oid, 'member')`)
    // The extended protocol takes one statement.
    const { rows, fields } = await client.query<unknown[]>({ text: sql, values: [], rowMode: 'array', queryMode: 'extended' } as QueryArrayConfig)
    await client.query('rollback')
    const names = distinct(fields.map(({ name }) => name))
    return rows.map((row) => Object.fromEntries(row.map((value, i) => [names[i], value])))
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    if (!code || !/^[0-9A-Z]{5}$/.test(code) || code.startsWith('08') || code.startsWith('57P')) throw error
    const several = message.includes('multiple commands')
    throw new InstarError('bad_sql', several ? 'This is more than one statement; send them one at a time.' : message, { sqlstate: code }, { cause: error })
  } finally {
    await client.end()
  }
}
