/**
 * The PostgreSQL of the read model: the embedded one, started and restarted by Instar, or the user's own by its URL.
 */
import { rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type { ClientConfig } from 'pg'
import { findBinaries } from './binaries.ts'
import { existingPlace, makePlace, PORT, type ServerPaths } from './place.ts'
import { databaseUrl, READER, readerOf, readerPasswordOf, type ReaderLogin } from './reader.ts'
import { OWNER, prepareRoles, type LoginAs } from './roles.ts'
import { initialise, liveServer, serve, type Server } from './server.ts'

/** `readerPassword`: what the owner gives the reader's login, in a server that is not ours. */
export type DatabaseConnection = Readonly<ClientConfig & { readerPassword?: string }>

export type Postgres = {
  /** Owns the tables. */
  owner: DatabaseConnection
  /** Reads only, with a time limit for each statement. */
  reader: ReaderLogin
  /** For other programs. */
  url: string
  /** The line that a person types to look inside. */
  psql: string
  /** Ends the embedded server; a server of the user's own is left alone. Idempotent. */
  stop(): Promise<void>
}

export type StartOptions = {
  /** Where the embedded server keeps its data and socket; it may be deleted at any time it does not run. */
  folder: string
  /** INSTAR_PG_BIN: the folder of `postgres` and `initdb`, instead of the npm package's. */
  bin?: string
  /** DATABASE_URL: use this server instead of an embedded one. */
  url?: string
  /** Password of `instar_reader` there; default: what follows from the URL's own. */
  readerPassword?: string | null
  /** Called when the embedded server has ended by itself and when it runs again. */
  say?(line: string): void
}

/** Throws `no_postgres` where there are no programs to run, `postgres_failed` when they do not start. */
export const startPostgres = async (options: StartOptions): Promise<Postgres> => {
  if (options.url) return ownServer(options.url, options.readerPassword ?? null)
  const place = makePlace(options.folder)
  const binaries = findBinaries(place, options.bin)
  const fresh = await initialise(binaries, place)
  let server = await serve(binaries, place).catch(async (error: Error) => {
    if (fresh) throw error
    // Nothing is in there that the log would not give back.
    options.say?.(`${error.message}\nMaking the database anew; it is filled from the log.`)
    rmSync(place.data, { recursive: true, force: true })
    await initialise(binaries, place)
    return serve(binaries, place)
  })
  const stopping = new AbortController()
  const postgres = describe(place)
  try {
    const as = loginAs(place)
    await prepareRoles(as, as(OWNER, 'postgres'))
  } catch (error) {
    await server.stop()
    throw error
  }

  const keepAlive = async (): Promise<void> => {
    for (;;) {
      const status = await server.exited
      if (stopping.signal.aborted) return
      options.say?.(`PostgreSQL ended by itself (status ${status}); starting it again`)
      const again = await restarted(() => serve(binaries, place), stopping.signal)
      if (!again) return
      server = again
      options.say?.('PostgreSQL is back')
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

/** Tries until it works or the signal comes, which it then leaves nothing behind for. */
const restarted = async (start: () => Promise<Server>, signal: AbortSignal): Promise<Server | undefined> => {
  for (let wait = 100; !signal.aborted; wait = Math.min(2 * wait, 30_000)) {
    await pause(wait, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return undefined
    const server = await start().catch(() => undefined)
    if (server && signal.aborted) await server.stop()
    else if (server) return server
  }
  return undefined
}

/** The embedded server that another process runs in this folder; undefined if none does. */
export const runningPostgres = async (folder: string): Promise<Omit<Postgres, 'stop'> | undefined> => {
  const place = existingPlace(folder)
  return place && (await liveServer(place)) !== undefined ? describe(place) : undefined
}

const loginAs =
  (place: ServerPaths): LoginAs =>
  (user, database) => ({ host: place.sockets, port: PORT, database, user })

const describe = (place: ServerPaths): Omit<Postgres, 'stop'> => {
  const as = loginAs(place)
  return {
    owner: as(OWNER, OWNER),
    reader: as(READER, OWNER),
    url: `postgresql://instar@localhost/instar?host=${encodeURIComponent(place.sockets)}&port=${PORT}`,
    psql: `psql "host=${place.sockets} user=${READER} dbname=instar"`,
  }
}

const ownServer = (url: string, readerPassword: string | null): Postgres => {
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
