/**
 * The roles of a server that only Instar uses, embedded or of the compose file: the superuser `postgres`, which only
 * this file uses; `instar`, which owns the database of that name and nothing else; and `instar_reader` (reader.ts).
 * Clusters of older builds, in which `instar` was the superuser, are converted.
 */
import { Client, escapeIdentifier, escapeLiteral, type ClientConfig } from 'pg'
import { OWNER, prepareReader } from './reader.ts'
import { scramVerifier } from './scram.ts'

export const ADMIN = 'postgres'
export { OWNER }
/** A temporary role that renames the superuser of an older build, since a role cannot rename itself. */
export const MOVING = 'instar_moving'

/** The connection settings of a role for a database. */
export type LoginAs = (user: string, database: string) => ClientConfig

/** An absent password: the server requires none for the role. */
export type Passwords = { admin?: string; owner?: string; reader?: string }

/** SQLSTATE invalid_authorization_specification, invalid_password. */
const REFUSED = new Set(['28000', '28P01'])

export const isLoginRefused = (error: unknown): boolean => REFUSED.has((error as { code?: string }).code ?? '')

export const withClient = async <T>(config: ClientConfig, work: (client: Client) => Promise<T>): Promise<T> => {
  const client = new Client({ connectionTimeoutMillis: 10_000, ...config })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await work(client)
  } finally {
    await client.end()
  }
}

const passwordOf = (password: string | undefined): string =>
  password === undefined ? 'null' : escapeLiteral(scramVerifier(password))

/**
 * `older`: the login of `instar` in a cluster in which it is the superuser. Idempotent; each step is atomic, so an
 * interrupted run can be repeated.
 */
export const prepareRoles = async (as: LoginAs, older: ClientConfig, passwords: Passwords = {}): Promise<void> => {
  try {
    await withClient(as(ADMIN, ADMIN), (client) => prepareServer(client, passwords))
  } catch (error) {
    if (!isLoginRefused(error)) throw error
    await renameSuperuser(as, older, passwords)
    await withClient(as(ADMIN, ADMIN), (client) => prepareServer(client, passwords))
  }
  await withClient(as(ADMIN, OWNER), async (client) => {
    await client.query(TAKE_OVER)
    await prepareReader(client, passwordOf(passwords.reader))
  })
}

const renameSuperuser = async (as: LoginAs, older: ClientConfig, { admin }: Passwords): Promise<void> => {
  await withClient(older, (client) =>
    client.query(`
    do $$ begin
      if not exists (select from pg_roles where rolname = '${MOVING}') then create role ${MOVING}; end if;
    end $$;
    alter role ${MOVING} superuser login password ${passwordOf(admin)}`),
  )
  await withClient(as(MOVING, ADMIN), (client) =>
    client.query(`alter role ${OWNER} rename to ${ADMIN}; alter role ${ADMIN} password ${passwordOf(admin)}`),
  )
}

const prepareServer = async (client: Client, { owner }: Passwords): Promise<void> => {
  // Rows that a crash loses can be rebuilt from the log; roles cannot.
  await client.query('set synchronous_commit = on')
  await client.query(`
    drop role if exists ${MOVING};
    do $$ begin
      if not exists (select from pg_roles where rolname = '${OWNER}') then create role ${OWNER} login; end if;
    end $$;
    alter role ${OWNER} login nosuperuser nocreaterole nocreatedb noreplication nobypassrls password ${passwordOf(owner)}`)
  await ownDatabase(client, OWNER)
  await client.query(`revoke temporary on database ${OWNER} from public`)
}

/** Creates the database with the name of the role and makes the role its owner. */
const ownDatabase = async (client: Client, role: string): Promise<void> => {
  const name = escapeIdentifier(role)
  const { rowCount } = await client.query('select from pg_database where datname = $1', [role])
  await client.query(
    rowCount === 0 ? `create database ${name} owner ${name}` : `alter database ${name} owner to ${name}`,
  )
}

/** Creates another role with a password, and the database of its name. */
export const prepareNeighbour = (admin: ClientConfig, role: string, password: string): Promise<void> =>
  withClient(admin, async (client) => {
    const { rowCount } = await client.query('select from pg_roles where rolname = $1', [role])
    if (rowCount === 0) await client.query(`create role ${escapeIdentifier(role)} login`)
    await client.query(`alter role ${escapeIdentifier(role)} login password ${escapeLiteral(scramVerifier(password))}`)
    await ownDatabase(client, role)
  })

/** Makes `instar` the owner of everything that the superuser (oid 10, created by initdb) created in this database. */
const TAKE_OVER = `
do $$ declare one record; begin
  for one in select c.oid::regclass as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relowner = 10 and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
        and (d.deptype = 'e' or c.relkind = 'S' and d.deptype in ('a', 'i')))
  loop execute format('alter table %s owner to ${OWNER}', one.name); end loop;
  for one in select nspname as name from pg_namespace
    where nspowner = 10 and nspname !~ '^pg_' and nspname not in ('information_schema', 'public')
  loop execute format('alter schema %I owner to ${OWNER}', one.name); end loop;
  for one in select p.oid::regprocedure as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where p.proowner = 10 and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
      and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  loop execute format('alter routine %s owner to ${OWNER}', one.name); end loop;
end $$`
