/**
 * The `setup` job's work on PostgreSQL: the database, our tables and views, the reader's role. Idempotent; several
 * may run at once.
 */
import { InstarError } from '@instar/events/errors'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, escapeIdentifier } from 'pg'
import { migrate } from './migrate.ts'
import { databaseUrl, readerPasswordOf, urlAs } from './reader.ts'
import { OWNER, prepareNeighbour, prepareRoles, type LoginAs, type Passwords } from './roles.ts'

const RETRY_MS = 500

/**
 * `url`: DATABASE_URL. `readerPassword`: of the reader's login; null: derived from the URL's. Waits for a server that
 * is starting. Throws `postgres_failed` when it does not answer within `patience` ms.
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
      else if (!isPassing(cause)) throw cause
      else if (Date.now() > until)
        throw new InstarError(
          'postgres_failed',
          `PostgreSQL does not answer: ${(cause as Error).message}`,
          {},
          { cause },
        )
    } finally {
      await client.end()
    }
    await pause(RETRY_MS)
  }
}

/**
 * SQLSTATE invalid_catalog_name, duplicate_database, unique_violation: the last two where another one makes it
 * meanwhile.
 */
const NO_DATABASE = '3D000'
const THERE_ALREADY = new Set(['42P04', '23505'])

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
    if (!THERE_ALREADY.has((cause as { code?: string }).code ?? ''))
      throw new InstarError(
        'postgres_failed',
        `There is no database ${name}, and it cannot be made: ${(cause as Error).message}`,
        {},
        { cause },
      )
  } finally {
    await client.end()
  }
}

type RolesWanted = {
  /** How `postgres`, who may do anything, logs in. */
  admin: string
  passwords: Required<Passwords>
  /** Password of the superuser `instar` of a stack that an older build made. */
  older: string
  /** Other roles, each with a password and a database of its name. */
  neighbours: Readonly<Record<string, string>>
}

/**
 * Makes the roles of our own server, before anything else. Throws `postgres_failed` when it does not answer within
 * `patience` ms.
 */
export const setupRoles = async (
  { admin, passwords, older, neighbours }: RolesWanted,
  patience = 60_000,
): Promise<void> => {
  const url = databaseUrl(admin)
  const as: LoginAs = (user, database) => {
    const there = new URL(url)
    there.pathname = `/${database}`
    return { connectionString: urlAs(there, user, passwords.admin), application_name: 'instar setup' }
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
      if (!isPassing(cause) || Date.now() > until)
        throw new InstarError(
          'postgres_failed',
          `PostgreSQL's roles cannot be made: ${(cause as Error).message}`,
          {},
          { cause },
        )
    }
    await pause(RETRY_MS)
  }
}

/** No connection yet, or one that broke: classes 08 and 57P of SQLSTATE, or an error of the socket. */
const isPassing = (cause: unknown): boolean => {
  const code = (cause as { code?: string }).code ?? ''
  return /^(08|57P)/.test(code) || /^E[A-Z]+$/.test(code) || (cause as Error).message.includes('Connection terminated')
}
