/**
 * A PostgreSQL for the read model: the embedded one, started and kept alive, or the user's own by its URL.
 * Database and user are `instar`; `instar_reader` may read everything and write nothing.
 */
import { rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, type ClientConfig } from 'pg'
import { InstarError } from '@instar/events/errors'
import { findBinaries } from './binaries.ts'
import { existingPlace, makePlace, PORT, type Place } from './place.ts'
import { prepareReader, READER } from './reader.ts'
import { initialise, liveServer, serve, type Server } from './server.ts'

export type Connection = Readonly<ClientConfig>

export type Postgres = {
  /** Owns the tables. */
  owner: Connection
  /** Reads only, with a time limit for each statement. */
  reader: Connection
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
  /** Told when the embedded server ended by itself and when it is back. */
  say?(line: string): void
}

/** Throws `no_postgres` where there are no programs to run, `postgres_failed` when they do not start. */
export const startPostgres = async (options: StartOptions): Promise<Postgres> => {
  if (options.url) return ownServer(options.url)
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
    await prepare(postgres)
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
  return place && await liveServer(place) !== undefined ? describe(place) : undefined
}

const describe = (place: Place): Omit<Postgres, 'stop'> => {
  const at = { host: place.sockets, port: PORT, database: 'instar' }
  return {
    owner: { ...at, user: 'instar' },
    reader: { ...at, user: READER },
    url: `postgresql://instar@localhost/instar?host=${encodeURIComponent(place.sockets)}&port=${PORT}`,
    psql: `psql "host=${place.sockets} user=${READER} dbname=instar"`,
  }
}

const ownServer = (url: string): Postgres => {
  let shown: URL
  try {
    shown = new URL(url)
  } catch (cause) {
    throw new InstarError('bad_request', 'DATABASE_URL is not a URL of the form postgresql://user:password@host:port/database.', {}, { cause })
  }
  shown.password = ''
  const connection = { connectionString: url }
  return { owner: connection, reader: connection, url, psql: `psql "${shown.href}"`, stop: async () => undefined }
}

/** SQLSTATE invalid_catalog_name. */
const NO_DATABASE = '3D000'

/** The database and its reader. Idempotent. */
const prepare = async (postgres: Omit<Postgres, 'stop'>): Promise<void> => {
  const client = new Client(postgres.owner)
  try {
    await client.connect()
    await prepareReader(client)
    return
  } catch (error) {
    if ((error as { code?: string }).code !== NO_DATABASE) throw error
  } finally {
    await client.end()
  }
  const first = new Client({ ...postgres.owner, database: 'postgres' })
  try {
    await first.connect()
    await first.query('create database instar')
  } finally {
    await first.end()
  }
  await prepare(postgres)
}
