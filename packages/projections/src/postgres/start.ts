/** The PostgreSQL server of the read model: embedded, started and restarted by Instar, or external, by its URL. */
import { setTimeout as pause } from 'node:timers/promises'
import { InstarError } from '@instar/events/errors'
import type { ClientConfig } from 'pg'
import { findBinaries } from './binaries.ts'
import { isDamage, reportedDamage } from './damage.ts'
import { existingPaths, makePaths, PORT, type ServerPaths } from './server-paths.ts'
import { databaseUrl, READER, readerOf, readerPasswordOf, type ReaderLogin } from './reader.ts'
import { OWNER, prepareRoles, type LoginAs } from './roles.ts'
import { initialise, liveServer, removeData, serve, type Server } from './server.ts'

/** `readerPassword`: the password with which the owner creates the reader on an external server. */
export type DatabaseConnection = Readonly<ClientConfig & { readerPassword?: string }>

export type Postgres = {
  /** The login that owns the tables. */
  owner: DatabaseConnection
  /** The login that can only read, with a statement timeout. */
  reader: ReaderLogin
  /** The URL for other programs. */
  url: string
  /** The psql command that opens the database. */
  psql: string
  /** Stops an embedded server; no effect on an external one. Idempotent. */
  stop(): Promise<void>
}

export type StartOptions = {
  /** The folder of data and socket of the embedded server. It may be deleted while the server is not running. */
  folder: string
  /** INSTAR_PG_BIN: the folder of `postgres` and `initdb`; default: that of the npm package. */
  bin?: string
  /** DATABASE_URL: the external server to use. */
  url?: string
  /** The password of `instar_reader` on the external server; default: derived from that of the URL. */
  readerPassword?: string | null
  /** Receives lines for the process's log. */
  logLine?(line: string): void
}

/** Throws `no_postgres` if there are no PostgreSQL programs, and `postgres_failed` if the server does not start. */
export const startPostgres = async (options: StartOptions): Promise<Postgres> => {
  if (options.url) return externalServer(options.url, options.readerPassword ?? null)
  try {
    return await embeddedServer(options)
  } catch (cause) {
    if (cause instanceof InstarError) throw cause
    const message = `The PostgreSQL server of ${options.folder} cannot be used: ${(cause as Error).message}.`
    throw new InstarError('postgres_failed', message, { folder: options.folder }, { cause })
  }
}

const embeddedServer = async (options: StartOptions): Promise<Postgres> => {
  const paths = makePaths(options.folder)
  const binaries = findBinaries(paths, options.bin)
  const as = loginAs(paths)
  const prepared = async (): Promise<Server> => {
    const started = await serve(binaries, paths)
    try {
      await prepareRoles(as, as(OWNER, 'postgres'))
      return started
    } catch (error) {
      await started.stop()
      throw error
    }
  }
  const recreated = async (why: string): Promise<Server> => {
    options.logLine?.(`${why}\nRecreating the database; it is refilled from the log.`)
    await removeData(paths)
    await initialise(binaries, paths)
    return prepared()
  }
  const created = await initialise(binaries, paths)
  const damage = created ? undefined : reportedDamage(paths)
  let server = await (damage === undefined
    ? prepared().catch((error: Error) => {
        if (created || !(isDamage(error) || error instanceof InstarError)) throw error
        return recreated(error.message)
      })
    : recreated(`In its last run PostgreSQL found damaged data: ${damage}`))
  const stopping = new AbortController()
  const postgres = describe(paths)

  const keepAlive = async (): Promise<void> => {
    for (;;) {
      const status = await server.exited
      if (stopping.signal.aborted) return
      options.logLine?.(`PostgreSQL ended unexpectedly (status ${status}); restarting it`)
      const next = await restart(() => serve(binaries, paths), stopping.signal)
      if (!next) return
      server = next
      options.logLine?.('PostgreSQL is running again')
    }
  }
  const alive = keepAlive()
  return {
    ...postgres,
    async stop() {
      stopping.abort()
      await server.stop()
      await alive
    },
  }
}

/** Tries to start a server until it succeeds; undefined if the signal is aborted, and then no server is running. */
const restart = async (start: () => Promise<Server>, signal: AbortSignal): Promise<Server | undefined> => {
  for (let wait = 100; !signal.aborted; wait = Math.min(2 * wait, 30_000)) {
    await pause(wait, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return undefined
    const server = await start().catch(() => undefined)
    if (server && signal.aborted) await server.stop()
    else if (server) return server
  }
  return undefined
}

/** The embedded server that another process runs in this folder; undefined if none is running. */
export const runningPostgres = async (folder: string): Promise<Omit<Postgres, 'stop'> | undefined> => {
  const paths = existingPaths(folder)
  return paths && (await liveServer(paths)) !== undefined ? describe(paths) : undefined
}

const loginAs =
  (paths: ServerPaths): LoginAs =>
  (user, database) => ({ host: paths.sockets, port: PORT, database, user })

const describe = (paths: ServerPaths): Omit<Postgres, 'stop'> => {
  const as = loginAs(paths)
  return {
    owner: as(OWNER, OWNER),
    reader: as(READER, OWNER),
    url: `postgresql://instar@localhost/instar?host=${encodeURIComponent(paths.sockets)}&port=${PORT}`,
    psql: `psql "host=${paths.sockets} user=${READER} dbname=instar"`,
  }
}

const externalServer = (url: string, readerPassword: string | null): Postgres => {
  const shown = databaseUrl(url)
  shown.password = ''
  shown.searchParams.delete('password')
  const psql = `psql "${shown.href}"`
  const password = readerPasswordOf(url, readerPassword)
  return {
    owner: { connectionString: url, ...(password === null ? {} : { readerPassword: password }) },
    reader: readerOf(url, password),
    url,
    psql,
    stop: async () => undefined,
  }
}
