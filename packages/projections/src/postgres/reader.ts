/**
 * The role that reads all of our tables and writes none. It is a login: a session that only set the role could reset
 * it.
 */
import { createHmac } from 'node:crypto'
import { escapeLiteral, type Client, type ClientConfig } from 'pg'
import { InstarError } from '@instar/events/errors'
import { scramVerifier } from './scram.ts'

export const READER = 'instar_reader'
/** Who owns the tables in a server of our own. */
export const OWNER = 'instar'

/** Milliseconds that a reader's statement may take. */
export const READER_TIMEOUT = 30_000

const ROLE = `
do $$ begin
  if not exists (select from pg_roles where rolname = '${READER}') then create role ${READER}; end if;
end $$;
alter role ${READER} login nosuperuser nocreaterole nocreatedb;
alter role ${READER} set default_transaction_read_only = on;
alter role ${READER} set statement_timeout = ${READER_TIMEOUT};
alter role ${READER} set idle_in_transaction_session_timeout = '5min';`

/** Our tables and views, and the public catalogs; `pg_read_all_data` would include the roles' passwords (pg_authid). */
const TABLES = `
    grant usage on schema public to ${READER};
    grant select on all tables in schema public to ${READER};`

/** A migration waits for an advisory lock, which by default any session may hold. */
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
 * In a server of our own. Temporary tables and large objects are what PostgreSQL otherwise lets anybody write. A
 * person may lift the time limit of a session of their own in psql; `readOnlyQuery` cannot. Flushed to disk, unlike
 * the rows, which are written again when they are lost. `password`: as SQL, a verifier or `null`.
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

/** SQLSTATE insufficient_privilege; internal_error: another process changes the same role at this moment. */
const LEFT_ALONE = new Set(['42501', 'XX000'])

/**
 * In a server of the user's own: a login that reads this database's tables, if we may make roles there. `password`:
 * null where DATABASE_URL has none. Elsewhere on that server it may do what anybody may.
 */
export const offerReader = async (client: Client, password: string | null): Promise<void> => {
  const {
    rows: [role],
  } = await client.query<{ may: boolean }>(
    'select rolsuper or rolcreaterole as may from pg_roles where rolname = current_user',
  )
  const { rowCount: there } = await client.query(`select from pg_roles where rolname = '${READER}'`)
  try {
    // In a server of the user's, another program made the role: its password is not changed.
    if (role?.may) {
      await client.query(
        `${ROLE} alter role ${READER} password ${password === null ? 'null' : escapeLiteral(scramVerifier(password))}; revoke pg_read_all_data from ${READER}`,
      )
    } else if (there === 0) return
    await client.query(`${TABLES}
      alter default privileges in schema public grant select on tables to ${READER};`)
  } catch (error) {
    if (!LEFT_ALONE.has((error as { code?: string }).code ?? '')) throw error
  }
}

/** The reader's password: its own, else one derived from the owner's by a one-way function; null: the URL has none. */
export const readerPasswordOf = (url: string, own: string | null): string | null => {
  const { password } = loginOf(databaseUrl(url))
  return own ?? (password === null ? null : createHmac('sha256', password).update(READER).digest('base64url'))
}

/** The login, and the one to use instead when the server refuses it. */
export type ReaderLogin = ClientConfig & { instead?: ClientConfig }

/** Query parameters outrank what stands before the host, and may stand where there is no host. */
export const urlAs = (url: URL, user: string, password: string | null): string => {
  const other = new URL(url)
  other.username = ''
  other.password = ''
  other.searchParams.set('user', user)
  if (password === null) other.searchParams.delete('password')
  else other.searchParams.set('password', password)
  return other.href
}

/** The user and the password of a URL, decoded; null where it names none. */
const loginOf = (url: URL): { user: string | null; password: string | null } => ({
  user: url.searchParams.get('user') ?? (decodeURIComponent(url.username) || null),
  password: url.searchParams.get('password') ?? (decodeURIComponent(url.password) || null),
})

/** Takes `user@/database?host=…` too, as PostgreSQL's own programs do. Throws `bad_request`. */
export const databaseUrl = (url: string): URL => {
  const whole = URL.canParse(url) ? url : url.replace('@/', '@localhost/')
  try {
    return new URL(whole)
  } catch (cause) {
    throw new InstarError(
      'bad_request',
      'DATABASE_URL is not a URL of the form postgresql://user:password@host:port/database.',
      {},
      { cause },
    )
  }
}

export const readerOf = (url: string, password: string | null): ReaderLogin => {
  const parsed = databaseUrl(url)
  if (loginOf(parsed).user === READER) return { connectionString: url }
  return { connectionString: urlAs(parsed, READER, password), instead: { connectionString: url } }
}
