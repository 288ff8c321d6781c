/**
 * One run of the PostgreSQL server as a child process that cannot outlive its owner.
 *
 * The guard: a shell starts the server and waits on a pipe that only the owner holds. However the owner
 * ends, kill -9 included, the pipe closes and the shell asks the server for a fast shutdown. The server
 * stands in a session of its own, so that a terminal's Ctrl-C does not take it away under services that
 * are still draining.
 */
import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import {
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { InstarError } from '@instar/events/errors'
import { writeAccess } from './access.ts'
import type { Binaries } from './binaries.ts'
import { NOBODY, ownData, PORT, type ServerPaths } from './place.ts'
import { ADMIN } from './roles.ts'

const run = promisify(execFile)

/** How long a start may take, and how long another owner's server may take to leave. Milliseconds. */
const DEADLINE = 30_000

const GUARD = `
exec 3<&0
"$@" </dev/null >&2 3<&- &
server=$!
echo $server
exec >&-
(while read -r line <&3; do :; done; kill -INT $server) &
guard=$!
wait $server
status=$?
kill $guard 2>/dev/null
exit $status`

/**
 * The data is a cache of the log: what a crash of the machine takes from the last transactions is written
 * again, so commits need not wait for the disk (each is still whole, in order).
 */
const SETTINGS: Record<string, string> = {
  listen_addresses: '',
  unix_socket_permissions: '0700',
  max_connections: '40',
  shared_buffers: '64MB',
  synchronous_commit: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: '256MB',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  logging_collector: 'off',
  // After a crash one sync of the file system instead of one of each of a thousand files.
  ...(process.platform === 'linux' ? { recovery_init_sync_method: 'syncfs' } : {}),
  log_checkpoints: 'off',
  log_min_error_statement: 'panic',
}

export type Server = {
  /** Resolves with the exit status when the server has ended, for whatever reason. */
  exited: Promise<number>
  /** Fast shutdown: open transactions are rolled back. Resolves when the server has ended. */
  stop(): Promise<void>
}

const majorOf = (binaries: Binaries, place: ServerPaths): string => {
  const { stdout, error, stderr } = spawnSync(binaries.postgres, ['--version'], {
    encoding: 'utf8',
    cwd: '/',
    ...(place.user ?? {}),
  })
  const major = /^postgres \(PostgreSQL\) (\d+)/.exec(stdout ?? '')?.[1]
  if (!major)
    throw new InstarError(
      'no_postgres',
      `${binaries.postgres} does not run on this machine: ${(stderr || (error?.message ?? '')).trim()}`,
      { path: binaries.postgres },
      { cause: error },
    )
  return major
}

/**
 * Makes the data folder, or makes it anew when another major version wrote it (the log refills it).
 * False when there is nothing to do.
 */
export const initialise = async (binaries: Binaries, place: ServerPaths): Promise<boolean> => {
  const file = join(place.data, 'PG_VERSION')
  const major = majorOf(binaries, place)
  if (existsSync(file) && readFileSync(file, 'utf8').trim() === major) return false
  await predecessorGone(place)
  const fresh = `${place.data}.new`
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { mode: 0o700 })
  // initdb wants a user with a name, which the one of the cluster has not.
  const maker = place.user && { uid: NOBODY, gid: NOBODY }
  if (maker) chownSync(fresh, maker.uid, maker.gid)
  try {
    await run(
      binaries.initdb,
      ['-D', fresh, '-U', ADMIN, '-A', 'reject', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions'],
      { cwd: '/', ...(maker ?? {}) },
    )
  } catch (cause) {
    throw new InstarError(
      'postgres_failed',
      `initdb failed: ${((cause as { stderr?: string }).stderr ?? '').trim() || (cause as Error).message}`,
      { folder: place.folder },
      { cause },
    )
  }
  rmSync(place.data, { recursive: true, force: true })
  renameSync(fresh, place.data)
  return true
}

/** The process that postmaster.pid names, if it runs and is the server of this folder. */
export const liveServer = async (place: ServerPaths): Promise<number | undefined> => {
  const pid = recordedPid(place)
  if (pid === undefined || !isAlive(pid)) return undefined
  return (await commandOf(pid)).includes(place.data) ? pid : undefined
}

const pidFile = (place: ServerPaths): string => join(place.data, 'postmaster.pid')

const recordedPid = (place: ServerPaths): number | undefined => {
  const [pid] = pidLines(place)
  return pid && /^\d+$/.test(pid) ? Number(pid) : undefined
}

const pidLines = (place: ServerPaths): string[] => {
  try {
    return readFileSync(pidFile(place), 'utf8').split('\n')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

const commandOf = async (pid: number): Promise<string> => {
  if (process.platform === 'linux') {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    } catch (error) {
      if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return ''
      throw error
    }
  }
  const { stdout } = await run('ps', ['-p', String(pid), '-o', 'command=']).catch(() => ({ stdout: '' }))
  return stdout
}

const predecessorGone = async (place: ServerPaths): Promise<void> => {
  for (const until = Date.now() + DEADLINE; (await liveServer(place)) !== undefined;) {
    if (Date.now() > until)
      throw new InstarError('postgres_failed', `Another process runs the PostgreSQL of ${place.folder}.`, {
        folder: place.folder,
      })
    await pause(25)
  }
}

/**
 * A server that was killed leaves its lock files. PostgreSQL clears them itself unless the process number
 * in them is taken again, by anything at all: as happens in a container that starts anew. The number is
 * then replaced by one that cannot be, and the rest kept: it leads to the shared memory by which
 * PostgreSQL knows that no orphan of the last run still writes.
 */
const clearStaleLocks = (place: ServerPaths): void => {
  const pid = recordedPid(place)
  if (pid !== undefined && isAlive(pid)) {
    const unused = '4194303'
    writeFileSync(pidFile(place), [unused, ...pidLines(place).slice(1)].join('\n'))
  }
  for (const name of [`.s.PGSQL.${PORT}`, `.s.PGSQL.${PORT}.lock`]) rmSync(join(place.sockets, name), { force: true })
}

/** Resolves when the server accepts connections. Throws `postgres_failed` with the end of its own log. */
export const serve = async (binaries: Binaries, place: ServerPaths): Promise<Server> => {
  const until = Date.now() + DEADLINE
  for (;;) {
    await predecessorGone(place)
    clearStaleLocks(place)
    ownData(place)
    writeAccess(place)
    const server = launch(binaries, place)
    const ready = await Promise.race([becomesReady(server, place, until), server.exited.then(() => false)])
    if (ready) return server
    await server.stop()
    const said = readFileSync(place.log, 'utf8').trim()
    const occupied = /lock file|pre-existing shared memory/.test(said)
    if (!occupied || Date.now() > until)
      throw new InstarError('postgres_failed', `PostgreSQL did not start: ${said.slice(-600)}`, {
        folder: place.folder,
        log: place.log,
      })
    await pause(50)
  }
}

type Launched = Server & { pid: Promise<number> }

const launch = (binaries: Binaries, place: ServerPaths): Launched => {
  const settings = Object.entries({ ...SETTINGS, unix_socket_directories: place.sockets }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ])
  const log = openSync(place.log, 'w', 0o600)
  const child = spawn(
    '/bin/sh',
    ['-c', GUARD, 'sh', binaries.postgres, '-D', place.data, '-p', String(PORT), ...settings],
    {
      cwd: '/',
      detached: true,
      stdio: ['pipe', 'pipe', log],
      env: { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
      ...(place.user ?? {}),
    },
  )
  closeSync(log)
  const exited = new Promise<number>((resolve) => {
    child.once('exit', (code) => resolve(code ?? 1))
    child.once('error', () => resolve(1))
  })
  // The pipe may break when the server ends by itself; `exited` tells of that.
  child.stdin?.on('error', () => undefined)
  const pid = firstLine(child).then(Number)
  // An owner with nothing else to do may end; the guard then ends the server.
  child.unref()
  if (child.stdin instanceof Socket) child.stdin.unref()
  return {
    exited,
    pid,
    async stop() {
      child.ref()
      child.stdin?.end()
      await exited
    },
  }
}

const firstLine = (child: ChildProcess): Promise<string> =>
  new Promise((resolve) => {
    let text = ''
    child.stdout
      ?.setEncoding('utf8')
      .on('data', (piece: string) => {
        text += piece
      })
      .once('end', () => resolve(text.trim()))
  })

/** The eighth line of postmaster.pid is `ready` once the socket answers. */
const becomesReady = async (server: Launched, place: ServerPaths, until: number): Promise<boolean> => {
  const pid = await server.pid
  let ended = false
  void server.exited.then(() => {
    ended = true
  })
  while (!ended && Date.now() < until) {
    const lines = pidLines(place)
    if (Number(lines[0]) === pid && lines[7]?.trim() === 'ready') return true
    await pause(10)
  }
  return false
}
