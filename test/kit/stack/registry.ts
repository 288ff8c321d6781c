/** Apicurio Registry on its own PostgreSQL, as child processes on loopback. */
import { execFile } from 'node:child_process'
import { chown, mkdir } from 'node:fs/promises'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findBinaries } from '@instar/projections/postgres/binaries'
import { makePaths, NOBODY, ownData } from '@instar/projections/postgres/server-paths'
import { Client } from 'pg'
import { guarded, type Guarded } from './guarded.ts'
import { newJava, registryProgram } from './installed.ts'
import { freePort, untilReady } from './ready.ts'

const run = promisify(execFile)

export type Database = { port: number; stop(): Promise<void>; start(): Promise<void> }

/** A PostgreSQL on loopback; user `postgres`, no password. */
export const startDatabase = async (folder: string): Promise<Database> => {
  await mkdir(folder, { recursive: true })
  chmodSync(folder, 0o711)
  const paths = makePaths(folder)
  const { initdb, postgres } = findBinaries(paths, process.env['INSTAR_PG_BIN'])
  const port = await freePort()
  const data = join(paths.home, 'server')
  await mkdir(data, { mode: 0o700 })
  // As in the product: initdb requires a user with a name, which the server's user lacks.
  const maker = paths.user && { uid: NOBODY, gid: NOBODY }
  if (maker) await chown(data, maker.uid, maker.gid)
  const initial = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions']
  await run(initdb, ['-D', data, ...initial], { cwd: '/', ...maker })
  ownData({ ...paths, data })
  let server: Guarded
  const start = async (): Promise<void> => {
    // The shell runs as this user, so that it can write its files; the server must not be root.
    const as = paths.user ? ['setpriv', `--reuid=${paths.user.uid}`, `--regid=${paths.user.gid}`, '--clear-groups'] : []
    server = guarded(
      [
        ...as,
        postgres,
        '-D',
        data,
        '-k',
        paths.sockets,
        '-p',
        String(port),
        '-c',
        'listen_addresses=127.0.0.1',
        '-c',
        'fsync=off',
        '-c',
        'shared_buffers=32MB',
      ],
      { folder, name: 'postgres', cwd: '/' },
    )
    await untilReady('PostgreSQL', server, async () => {
      await query(port, 'select 1')
      return true
    })
  }
  await start()
  return { port, start, stop: () => server.kill() }
}

const query = async (port: number, sql: string): Promise<void> => {
  const client = new Client({
    host: '127.0.0.1',
    port,
    user: 'postgres',
    database: 'postgres',
    connectionTimeoutMillis: 2000,
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query(sql)
  } finally {
    await client.end()
  }
}

export type Registry = {
  /** The Confluent-compatible address. */
  url: string
  kill(): Promise<void>
  signal(signal: NodeJS.Signals): void
  start(): Promise<void>
  /** The end of its output. */
  said(): string
  /** Kills it, deletes its storage, and starts it again. */
  forget(): Promise<void>
}

export const startRegistry = async (folder: string, database: Database): Promise<Registry> => {
  const [java, program, port, management] = await Promise.all([newJava(), registryProgram(), freePort(), freePort()])
  await mkdir(folder, { recursive: true })
  await query(database.port, 'create database registry')
  const url = `http://127.0.0.1:${port}/apis/ccompat/v7`
  const env = {
    QUARKUS_HTTP_HOST: '127.0.0.1',
    QUARKUS_HTTP_PORT: String(port),
    QUARKUS_MANAGEMENT_HOST: '127.0.0.1',
    QUARKUS_MANAGEMENT_PORT: String(management),
    APICURIO_STORAGE_KIND: 'sql',
    APICURIO_STORAGE_SQL_KIND: 'postgresql',
    APICURIO_DATASOURCE_URL: `jdbc:postgresql://127.0.0.1:${database.port}/registry`,
    APICURIO_DATASOURCE_USERNAME: 'postgres',
    APICURIO_DATASOURCE_PASSWORD: 'none',
    APICURIO_DATASOURCE_JDBC_INITIAL_SIZE: '2',
    APICURIO_DATASOURCE_JDBC_MIN_SIZE: '2',
  }
  let server: Guarded
  const start = async (): Promise<void> => {
    server = guarded([java, '-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-jar', 'quarkus-run.jar'], {
      folder,
      name: 'registry',
      cwd: program,
      env,
    })
    await untilReady(
      'the schema registry',
      server,
      async () => (await fetch(`${url}/subjects`, { signal: AbortSignal.timeout(5000) })).status === 200,
    )
  }
  await start()
  const forget = async (): Promise<void> => {
    await server.kill()
    await query(database.port, 'drop database registry with (force)')
    await query(database.port, 'create database registry')
    await start()
  }
  return {
    url,
    start,
    forget,
    kill: () => server.kill(),
    signal: (signal) => server.signal(signal),
    said: () => server.said(),
  }
}
