/**
 * The work of `instar setup` on PostgreSQL: the database, tables and views, and the reader role. Idempotent; it may run
 * concurrently.
 */
import { InstarError } from '@instar/events/errors'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, escapeIdentifier } from 'pg'
import { migrate } from './migrate.ts'
import { databaseUrl, readerPasswordOf, urlAs } from './reader.ts'
import { OWNER, prepareNeighbour, prepareRoles, type LoginAs, type Passwords } from './roles.ts'

const RETRY_MS = 500

/**
 * `url`: DATABASE_URL. `readerPassword`: the password of the reader; null: derived from that of the URL. Waits for a
 * server that is starting; throws `postgres_failed` if it accepts no connection within `patience` milliseconds.
 */
export const setupDatabase = async (
  url: string,
  readerPassword: string | null = null,
  patience = 60_000,
): Promise<void> => {
  const until = Date.now() + patience
  for (;;) {
    const client = new Client({
      connectionString: url,
      application_name: 'instar setup',
      connectionTimeoutMillis: 10_000,
    })
    client.on('error', () => undefined)
    try {
      await client.connect()
      await migrate(client, readerPasswordOf(url, readerPassword))
      return
    } catch (cause) {
      if ((cause as { code?: string }).code === NO_DATABASE) await createDatabase(url)
      else if (!isTransient(cause)) throw cause
      else if (Date.now() > until)
        throw new InstarError(
          'postgres_failed',
          `PostgreSQL cannot be reached: ${(cause as Error).message}`,
          {},
          { cause },
        )
    } finally {
      await client.end()
    }
    await pause(RETRY_MS)
  }
}

/** SQLSTATE invalid_catalog_name. */
const NO_DATABASE = '3D000'
/** SQLSTATE duplicate_database and unique_violation, if another process creates the database concurrently. */
const EXISTS = new Set(['42P04', '23505'])

const createDatabase = async (url: string): Promise<void> => {
  const place = new URL(url)
  const name = decodeURIComponent(place.pathname.slice(1))
  place.pathname = '/postgres'
  const client = new Client({
    connectionString: place.href,
    application_name: 'instar setup',
    connectionTimeoutMillis: 10_000,
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query(`create database ${escapeIdentifier(name)}`)
  } catch (cause) {
    if (!EXISTS.has((cause as { code?: string }).code ?? ''))
      throw new InstarError(
        'postgres_failed',
        `The database ${name} does not exist and cannot be created: ${(cause as Error).message}`,
        {},
        { cause },
      )
  } finally {
    await client.end()
  }
}

type RolesWanted = {
  /** URL of the login of the superuser `postgres`. */
  admin: string
  passwords: Required<Passwords>
  /** Password of `instar`, the superuser of a stack that an older build created. */
  older: string
  /** Passwords of other roles by name; each gets a database of its name. */
  neighbours: Readonly<Record<string, string>>
}

/**
 * Creates the roles of a server that only Instar uses. Throws `postgres_failed` if it accepts no connection within
 * `patience` milliseconds.
 */
export const setupRoles = async (
  { admin, passwords, older, neighbours }: RolesWanted,
  patience = 60_000,
): Promise<void> => {
  const url = databaseUrl(admin)
  const as: LoginAs = (user, database) => {
    const target = new URL(url)
    target.pathname = `/${database}`
    return { connectionString: urlAs(target, user, passwords.admin), application_name: 'instar setup' }
  }
  const before = new URL(url)
  before.pathname = '/postgres'
  for (const until = Date.now() + patience; ;) {
    try {
      await prepareRoles(
        as,
        { connectionString: urlAs(before, OWNER, older), application_name: 'instar setup' },
        passwords,
      )
      for (const [role, password] of Object.entries(neighbours))
        await prepareNeighbour(as('postgres', 'postgres'), role, password)
      return
    } catch (cause) {
      if (!isTransient(cause) || Date.now() > until)
        throw new InstarError(
          'postgres_failed',
          `The PostgreSQL roles cannot be created: ${(cause as Error).message}`,
          {},
          { cause },
        )
    }
    await pause(RETRY_MS)
  }
}

/** Whether the server is starting or the connection was lost: SQLSTATE classes 08 and 57P, and socket errors. */
const isTransient = (cause: unknown): boolean => {
  const code = (cause as { code?: string }).code ?? ''
  return /^(08|57P)/.test(code) || /^E[A-Z]+$/.test(code) || (cause as Error).message.includes('Connection terminated')
}
