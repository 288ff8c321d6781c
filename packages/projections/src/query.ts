/** Runs one read-only statement, for `instar sql`. */
import { Client, types, type CustomTypesConfig, type QueryArrayConfig } from 'pg'
import { InstarError } from '@instar/events/errors'
import { READER_TIMEOUT, type ReaderLogin } from './postgres/reader.ts'
import { isLoginRefused } from './postgres/roles.ts'

export type QueryRow = Record<string, unknown>

const exactNumber = (text: string): number | string => {
  const value = Number(text)
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? text : value
}

const isoTime = (text: string): string => (text.includes('infinity') ? text : new Date(text).toISOString())

/** int8 and numeric as numbers unless they are integers beyond the safe range; timestamps as ISO 8601; bytea as hex. */
const PARSERS = new Map<number, (text: string) => unknown>([
  [types.builtins.INT8, exactNumber],
  [types.builtins.NUMERIC, exactNumber],
  [types.builtins.TIMESTAMPTZ, isoTime],
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

/** Makes repeated names distinct: `count`, `count_2`. */
const distinct = (names: readonly string[]): string[] => {
  const taken = new Set<string>()
  return names.map((name) => {
    let free = name
    for (let i = 2; taken.has(free); i += 1) free = `${name}_${i}`
    taken.add(free)
    return free
  })
}

const connect = async ({ fallback, ...connection }: ReaderLogin): Promise<Client> => {
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
    if (fallback && isLoginRefused(cause)) return connect(fallback)
    throw new InstarError('postgres_failed', `PostgreSQL cannot be reached: ${(cause as Error).message}`, {}, { cause })
  }
}

/** Returns a row if the session's role has privileges beyond tables, or may grant them to itself (`rolcreaterole`). */
const PRIVILEGED = `
select session_user as me from pg_roles r where r.rolname = session_user and (r.rolsuper or r.rolcreaterole or r.rolreplication
  or exists (select from pg_roles m where m.rolname in ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')
    and pg_has_role(r.oid, m.oid, 'member'))
  or exists (select from pg_roles m where m.rolsuper and pg_has_role(r.oid, m.oid, 'member')))`

const refusePrivileged = async (client: Client): Promise<void> => {
  const {
    rows: [row],
  } = await client.query<{ me: string } | unknown[]>(PRIVILEGED)
  if (row === undefined) return
  const me = Array.isArray(row) ? String(row[0]) : row.me
  throw new InstarError(
    'no_reader',
    `The role of DATABASE_URL, ${JSON.stringify(me)}, has privileges beyond its tables, and instar_reader cannot log in to this server.`,
    { field: 'DATABASE_URL' },
  )
}

/**
 * The rows of one statement, run in a READ ONLY transaction that is rolled back. Repeated column names get a suffix
 * (`name_2`). The login must not be privileged, since `set role` can be reset by the statement. Throws `no_reader` if
 * there is only a privileged login, `bad_sql` with PostgreSQL's message if the statement fails, writes or is more than
 * one, and `postgres_failed` if there is no connection.
 */
export const readOnlyQuery = async (
  connection: ReaderLogin,
  sql: string,
  options: { timeoutMs?: number } = {},
): Promise<QueryRow[]> => {
  const client = await connect(connection)
  try {
    await refusePrivileged(client)
    await client.query('begin transaction read only')
    await client.query(`set local statement_timeout = ${Math.trunc(options.timeoutMs ?? READER_TIMEOUT)}`)
    // After the first query `set transaction read write` is refused.
    await client.query('select')
    // The extended protocol accepts one statement only.
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
      several ? 'The query has more than one statement; send one statement at a time.' : message,
      { sqlstate: code },
      { cause: error },
    )
  } finally {
    await client.end()
  }
}
