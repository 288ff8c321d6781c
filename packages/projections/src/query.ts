/** Runs one read-only statement, for `instar sql`. */
import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { Client, types, type CustomTypesConfig, type QueryArrayConfig } from 'pg'
import { InstarError } from '@instar/events/errors'
import { READER_TIMEOUT, type ReaderLogin } from './postgres/reader.ts'
import { isLoginRefused } from './postgres/roles.ts'

export type QueryRow = Record<string, unknown>

/** Maximum bytes of a result, which is held in memory, and the bytes that a row counts besides its values. */
const MAX_RESULT_BYTES = 128 << 20
const ROW_BYTES = 100

/**
 * Ends the connection at a result above the limit. pg holds every row until the last one has arrived, and a value until
 * its last byte: one that is longer than a string may be throws where nobody can catch it.
 */
export const limitResult = (client: Pick<Client, 'query'>): { exceeded: boolean } => {
  const limit = { exceeded: false }
  let bytes = 0
  const { connection } = client as unknown as { connection: EventEmitter & { stream: Socket } }
  const count = (more: number): void => {
    bytes += more
    if (bytes <= MAX_RESULT_BYTES || limit.exceeded) return
    limit.exceeded = true
    connection.stream.destroy()
  }
  connection.stream.prependListener('data', ({ length }: Uint8Array) => count(length))
  connection.on('dataRow', () => count(ROW_BYTES))
  return limit
}

const exactNumber = (text: string): number | string => {
  const value = Number(text)
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? text : value
}

/** As PostgreSQL writes it where a `Date` cannot hold the time: infinity, and years before 1 or far ahead. */
const isoTime = (text: string): string => {
  const time = new Date(text)
  return Number.isNaN(time.getTime()) ? text : time.toISOString()
}

/**
 * int8 and numeric as numbers unless they are integers beyond the safe range; timestamps as ISO 8601 where a Date holds
 * them; bytea as hex.
 */
const PARSERS = new Map<number, (text: string) => unknown>([
  [types.builtins.INT8, exactNumber],
  [types.builtins.NUMERIC, exactNumber],
  [types.builtins.TIMESTAMPTZ, isoTime],
  [types.builtins.TIMESTAMP, (text) => text],
  [types.builtins.DATE, (text) => text],
  [types.builtins.INTERVAL, (text) => text],
  [types.builtins.BYTEA, (text) => text.replace(/^\\x/, '')],
])

/** Of each column type: a JSON value. */
export const parsers: CustomTypesConfig = {
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
 * one, or if its result is above the limit, and `postgres_failed` if there is no connection.
 */
export const readOnlyQuery = async (
  connection: ReaderLogin,
  sql: string,
  options: { timeoutMs?: number } = {},
): Promise<QueryRow[]> => {
  const client = await connect(connection)
  const limit = limitResult(client)
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
    if (limit.exceeded)
      throw new InstarError(
        'bad_sql',
        `The result has more than ${MAX_RESULT_BYTES >> 20} MiB; select fewer rows, or use psql.`,
        {},
        { cause: error },
      )
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
