/** What `instar sql` runs: one statement that can only read. */
import { Client, types, type CustomTypesConfig, type QueryArrayConfig } from 'pg'
import { InstarError } from '@instar/events/errors'
import { READER_TIMEOUT, type ReaderLogin } from './postgres/reader.ts'
import { isLoginRefused } from './postgres/roles.ts'

export type QueryRow = Record<string, unknown>

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
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    (format === 'binary' ? undefined : PARSERS.get(oid)) ??
    types.getTypeParser(oid, format as 'text')) as CustomTypesConfig['getTypeParser'],
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

const connected = async ({ instead, ...connection }: ReaderLogin): Promise<Client> => {
  const client = new Client({
    ...connection,
    types: parsers,
    application_name: 'instar sql',
    connectionTimeoutMillis: 10_000,
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return client
  } catch (cause) {
    await client.end()
    if (instead && isLoginRefused(cause)) return connected(instead)
    throw new InstarError('postgres_failed', `PostgreSQL cannot be reached: ${(cause as Error).message}`, {}, { cause })
  }
}

/** Roles that reach beyond the tables, and `rolcreaterole`, which may give itself others. */
const MIGHTY = `
select session_user as me from pg_roles r where r.rolname = session_user and (r.rolsuper or r.rolcreaterole or r.rolreplication
  or exists (select from pg_roles m where m.rolname in ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')
    and pg_has_role(r.oid, m.oid, 'member'))
  or exists (select from pg_roles m where m.rolsuper and pg_has_role(r.oid, m.oid, 'member')))`

const refuseMighty = async (client: Client): Promise<void> => {
  const {
    rows: [found],
  } = await client.query<{ me: string } | unknown[]>(MIGHTY)
  if (found === undefined) return
  const me = Array.isArray(found) ? String(found[0]) : found.me
  throw new InstarError(
    'no_reader',
    `DATABASE_URL logs in as ${JSON.stringify(me)}, which may do more than read tables, and instar_reader cannot log in there.`,
    { field: 'DATABASE_URL' },
  )
}

/**
 * The rows of one statement in a READ ONLY transaction that is rolled back; of columns with one name the second is
 * `name_2`. Who logs in must be no superuser: a role that is only stepped down to can be stepped up from. Throws
 * `no_reader` where there is no other login, `bad_sql` with PostgreSQL's own words for what it refuses, several
 * statements and writing among them; `postgres_failed` when there is no connection.
 */
export const readOnlyQuery = async (
  connection: ReaderLogin,
  sql: string,
  options: { timeoutMs?: number } = {},
): Promise<QueryRow[]> => {
  const client = await connected(connection)
  try {
    await refuseMighty(client)
    await client.query('begin transaction read only')
    await client.query(`set local statement_timeout = ${Math.trunc(options.timeoutMs ?? READER_TIMEOUT)}`)
    // After a first query the transaction can no longer be made a writing one.
    await client.query('select')
    // The extended protocol takes one statement.
    const { rows, fields } = await client.query<unknown[]>({
      text: sql,
      values: [],
      rowMode: 'array',
      queryMode: 'extended',
    } as QueryArrayConfig)
    await client.query('rollback')
    const names = distinct(fields.map(({ name }) => name))
    return rows.map((row) => Object.fromEntries(row.map((value, i) => [names[i], value])))
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    if (!code || !/^[0-9A-Z]{5}$/.test(code) || code.startsWith('08') || code.startsWith('57P')) throw error
    const several = message.includes('multiple commands')
    throw new InstarError(
      'bad_sql',
      several ? 'This is more than one statement; send them one at a time.' : message,
      { sqlstate: code },
      { cause: error },
    )
  } finally {
    await client.end()
  }
}
