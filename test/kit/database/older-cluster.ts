/**
 * A cluster as builds made it until November 2026: `instar` is the superuser, the socket trusts every user, and with
 * root the files belong to `nobody`.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { findBinaries } from '@instar/projections/postgres/binaries'
import { existingPaths } from '@instar/projections/postgres/server-paths'
import { withClient } from '../database.ts'

const NOBODY = { uid: 65534, gid: 65534 }

/** `cut`: the step at which an earlier start with today's build was interrupted. */
export const olderCluster = async (folder: string, cut: 'not' | 'role' | 'rename'): Promise<void> => {
  const sockets = join(folder, 'run')
  mkdirSync(sockets, { mode: 0o700 })
  writeFileSync(join(folder, 'place.json'), JSON.stringify({ folder, home: folder, sockets }))
  const paths = existingPaths(folder)!
  mkdirSync(paths.data, { mode: 0o700 })
  const root = process.getuid?.() === 0
  const as = root ? NOBODY : {}
  if (root) for (const path of [sockets, paths.data]) chownSync(path, NOBODY.uid, NOBODY.gid)
  const { initdb, postgres } = findBinaries(paths)
  execFileSync(
    initdb,
    ['-D', paths.data, '-U', 'instar', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions'],
    { cwd: '/', stdio: 'ignore', ...as },
  )
  const server = spawn(
    postgres,
    ['-D', paths.data, '-c', 'listen_addresses=', '-c', `unix_socket_directories=${sockets}`],
    { cwd: '/', stdio: 'ignore', ...as },
  )
  const ended = once(server, 'exit')
  const ready = (): boolean => {
    try {
      return readFileSync(join(paths.data, 'postmaster.pid'), 'utf8').split('\n')[7]?.trim() === 'ready'
    } catch {
      return false
    }
  }
  while (!ready()) await pause(20)
  const at = { host: sockets, port: 5432, user: 'instar' }
  await withClient({ ...at, database: 'postgres' }, (client) => client.query('create database instar'))
  await withClient({ ...at, database: 'instar' }, (client) =>
    client.query(`
    create role instar_reader login; grant pg_read_all_data to instar_reader;
    create table kept (a int generated always as identity (start 7), b int); insert into kept (b) values (1);
    create view kept_view as select 1 as one from kept; create sequence loose;
    create schema mine; create table mine.other (a serial);
    create function give() returns int language sql as 'select 1'`),
  )
  if (cut !== 'not')
    await withClient({ ...at, database: 'postgres' }, (client) =>
      client.query('create role instar_moving superuser login'),
    )
  if (cut === 'rename')
    await withClient({ ...at, user: 'instar_moving', database: 'postgres' }, (client) =>
      client.query('alter role instar rename to postgres'),
    )
  server.kill('SIGINT')
  await ended
}
