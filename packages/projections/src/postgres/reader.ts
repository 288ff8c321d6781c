/**
 * The role that can read all tables of Instar and write none. It is a login role: a session that only sets a role can
 * reset it.
 */
import { createHmac } from 'node:crypto'
import { escapeLiteral, type Client, type ClientConfig } from 'pg'
import { InstarError } from '@instar/events/errors'
import { scramVerifier } from './scram.ts'

export const READER = 'instar_reader'
/** The role that owns the tables on the embedded server and on that of the compose file. */
export const OWNER = 'instar'

/** Statement timeout of the reader, in milliseconds. */
export const READER_TIMEOUT = 30_000

const ROLE = `
do $$ begin
  if not exists (select from pg_roles where rolname = '${READER}') then create role ${READER}; end if;
end $$;
alter role ${READER} login nosuperuser nocreaterole nocreatedb;
alter role ${READER} set default_transaction_read_only = on;
alter role ${READER} set statement_timeout = ${READER_TIMEOUT};
alter role ${READER} set idle_in_transaction_session_timeout = '5min';`

/**
 * Read access to the tables and views. `pg_read_all_data` is not used, since it includes the password hashes
 * (pg_authid).
 */
const TABLES = `
    grant usage on schema public to ${READER};
    grant select on all tables in schema public to ${READER};`

/** Restricts advisory locks to the owner: by default any session may hold the lock for which migrations wait. */
const ADVISORY = `
do $$ declare one record; begin
  for one in select oid::regprocedure as name from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace and proname ~ '^pg_(try_)?advisory_(xact_)?lock(_shared)?$'
  loop
    execute format('revoke execute on function %s from public', one.name);
    execute format('grant execute on function %s to ${OWNER}', one.name);
  end loop;
end $$;`

/**
 * Creates the reader on a server that only Instar uses, and revokes what PostgreSQL allows all roles to write:
 * temporary tables (see roles.ts) and large objects. In psql a user can change the statement timeout of the session; in
 * `readOnlyQuery` a statement cannot. Roles are committed synchronously, unlike rows, which can be rebuilt. `password`:
 * an SQL expression, a SCRAM verifier or `null`.
 */
export const prepareReader = async (client: Client, password: string): Promise<void> => {
  await client.query('set synchronous_commit = on')
  await client.query(`${ROLE}
    alter role ${READER} password ${password};
    revoke pg_read_all_data from ${READER};
    ${TABLES}
    alter default privileges for role ${OWNER} in schema public grant select on tables to ${READER};
    revoke execute on function lo_creat(int), lo_create(oid), lo_from_bytea(oid, bytea) from public;
    ${ADVISORY}`)
}

/** SQLSTATE insufficient_privilege, and internal_error, which a concurrent change of the role causes. */
const IGNORED_ERRORS = new Set(['42501', 'XX000'])

/**
 * Creates the reader on an external server, if the login may create roles, and grants it read access to the tables of
 * this database. `password`: null if DATABASE_URL has none.
 */
export const offerReader = async (client: Client, password: string | null): Promise<void> => {
  const {
    rows: [role],
  } = await client.query<{ may: boolean }>(
    'select rolsuper or rolcreaterole as may from pg_roles where rolname = current_user',
  )
  const { rowCount: existing } = await client.query(`select from pg_roles where rolname = '${READER}'`)
  try {
    // Without the right to create roles, a role that another program has created keeps its password.
    if (role?.may) {
      await client.query(
        `${ROLE} alter role ${READER} password ${password === null ? 'null' : escapeLiteral(scramVerifier(password))}; revoke pg_read_all_data from ${READER}`,
      )
    } else if (existing === 0) return
    await client.query(`${TABLES}
      alter default privileges in schema public grant select on tables to ${READER};`)
  } catch (error) {
    if (!IGNORED_ERRORS.has((error as { code?: string }).code ?? '')) throw error
  }
}

/** The reader's password: `own`, or else derived from the password of the URL by HMAC; null if the URL has none. */
export const readerPasswordOf = (url: string, own: string | null): string | null => {
  const { password } = loginOf(databaseUrl(url))
  return own ?? (password === null ? null : createHmac('sha256', password).update(READER).digest('base64url'))
}

/** A login. `fallback`: the login to use if the server refuses it. */
export type ReaderLogin = ClientConfig & { fallback?: ClientConfig }

/** The URL with another login, as query parameters: these have precedence and also work in URLs without a host. */
export const urlAs = (url: URL, user: string, password: string | null): string => {
  const other = new URL(url)
  other.username = ''
  other.password = ''
  other.searchParams.set('user', user)
  if (password === null) other.searchParams.delete('password')
  else other.searchParams.set('password', password)
  return other.href
}

/** The decoded user and password of a URL; null if it has none. */
const loginOf = (url: URL): { user: string | null; password: string | null } => ({
  user: url.searchParams.get('user') ?? (decodeURIComponent(url.username) || null),
  password: url.searchParams.get('password') ?? (decodeURIComponent(url.password) || null),
})

/** Parses DATABASE_URL; accepts `user@/database?host=…` like PostgreSQL's programs. Throws `bad_request`. */
export const databaseUrl = (url: string): URL => {
  const withHost = URL.canParse(url) ? url : url.replace('@/', '@localhost/')
  try {
    return new URL(withHost)
  } catch (cause) {
    throw new InstarError(
      'bad_request',
      'DATABASE_URL is not a URL of the form postgresql://user:password@host:port/database.',
      {},
      { cause },
    )
  }
}

/** The login of the reader on an external server, with the login of the URL as fallback. */
export const readerOf = (url: string, password: string | null): ReaderLogin => {
  const parsed = databaseUrl(url)
  if (loginOf(parsed).user === READER) return { connectionString: url }
  return { connectionString: urlAs(parsed, READER, password), fallback: { connectionString: url } }
}
