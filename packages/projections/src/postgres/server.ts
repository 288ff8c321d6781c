/**
 * Runs the PostgreSQL server as a child process that ends with its owner.
 *
 * A shell, the guard, starts the server and reads from a pipe whose other end only the owner has. When the owner ends
 * in any way, including kill -9, the pipe closes and the guard requests a fast shutdown of the server. The server runs
 * in a session of its own, so that Ctrl-C in a terminal does not stop it before the services that use it.
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
import { LINE_PREFIX } from './damage.ts'
import { NOBODY, ownData, PORT, type ServerPaths } from './server-paths.ts'
import { ADMIN } from './roles.ts'

const run = promisify(execFile)

/** Most milliseconds that a start, and the shutdown of the previous owner's server, may take. */
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
 * The data can be rebuilt from the log, so commits do not wait for the disk (`synchronous_commit`): transactions that a
 * crash of the machine loses are written again. Commits stay atomic and in order.
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
  // One sync of the file system after a crash instead of one per file.
  ...(process.platform === 'linux' ? { recovery_init_sync_method: 'syncfs' } : {}),
  log_checkpoints: 'off',
  // With the SQLSTATE of each error, which damage.ts reads.
  log_line_prefix: LINE_PREFIX,
  log_min_error_statement: 'panic',
}

export type Server = {
  /** Resolves with the exit status when the server has ended. */
  exited: Promise<number>
  /** Fast shutdown: open transactions are rolled back. Resolves when the server has ended. */
  stop(): Promise<void>
}

const majorOf = (binaries: Binaries, paths: ServerPaths): string => {
  const { stdout, error, stderr } = spawnSync(binaries.postgres, ['--version'], {
    encoding: 'utf8',
    cwd: '/',
    ...(paths.user ?? {}),
  })
  const major = /^postgres \(PostgreSQL\) (\d+)/.exec(stdout ?? '')?.[1]
  if (!major)
    throw new InstarError(
      'no_postgres',
      `${binaries.postgres} cannot be run on this machine: ${(stderr || (error?.message ?? '')).trim()}`,
      { path: binaries.postgres },
      { cause: error },
    )
  return major
}

/**
 * Creates the data folder, or replaces that of another major version; it is refilled from the log. Returns false if the
 * folder exists.
 */
export const initialise = async (binaries: Binaries, paths: ServerPaths): Promise<boolean> => {
  const file = join(paths.data, 'PG_VERSION')
  const major = majorOf(binaries, paths)
  if (existsSync(file) && readFileSync(file, 'utf8').trim() === major) return false
  await noServerRuns(paths)
  const temporary = `${paths.data}.new`
  rmSync(temporary, { recursive: true, force: true })
  mkdirSync(temporary, { mode: 0o700 })
  // initdb requires a user with a name, which the server's user does not have.
  const maker = paths.user && { uid: NOBODY, gid: NOBODY }
  if (maker) chownSync(temporary, maker.uid, maker.gid)
  try {
    await run(
      binaries.initdb,
      ['-D', temporary, '-U', ADMIN, '-A', 'reject', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions'],
      { cwd: '/', ...(maker ?? {}) },
    )
  } catch (cause) {
    throw new InstarError(
      'postgres_failed',
      `initdb failed: ${((cause as { stderr?: string }).stderr ?? '').trim() || (cause as Error).message}`,
      { folder: paths.folder },
      { cause },
    )
  }
  rmSync(paths.data, { recursive: true, force: true })
  renameSync(temporary, paths.data)
  return true
}

/** Removes the data folder once no server runs in it. */
export const removeData = async (paths: ServerPaths): Promise<void> => {
  await noServerRuns(paths)
  rmSync(paths.data, { recursive: true, force: true })
}

/** The process id in postmaster.pid, if that process is running and is the server of this folder. */
export const liveServer = async (paths: ServerPaths): Promise<number | undefined> => {
  const pid = recordedPid(paths)
  if (pid === undefined || !isAlive(pid)) return undefined
  return (await commandOf(pid)).includes(paths.data) ? pid : undefined
}

const pidFile = (paths: ServerPaths): string => join(paths.data, 'postmaster.pid')

const recordedPid = (paths: ServerPaths): number | undefined => {
  const [pid] = pidLines(paths)
  return pid && /^\d+$/.test(pid) ? Number(pid) : undefined
}

const pidLines = (paths: ServerPaths): string[] => {
  try {
    return readFileSync(pidFile(paths), 'utf8').split('\n')
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

/** Waits until no server runs in the folder. Throws `postgres_failed` after DEADLINE. */
const noServerRuns = async (paths: ServerPaths): Promise<void> => {
  for (const until = Date.now() + DEADLINE; (await liveServer(paths)) !== undefined;) {
    if (Date.now() > until)
      throw new InstarError('postgres_failed', `Another process runs the PostgreSQL server of ${paths.folder}.`, {
        folder: paths.folder,
      })
    await pause(25)
  }
}

/**
 * Clears the lock files of a server that was killed. PostgreSQL removes them itself, unless another process has the
 * same process id, as happens in a restarted container. Then the id is replaced by one that no process can have. The
 * other lines are needed: they identify the shared memory by which PostgreSQL checks that no process of the last run is
 * left.
 */
const clearStaleLocks = (paths: ServerPaths): void => {
  const pid = recordedPid(paths)
  if (pid !== undefined && isAlive(pid)) {
    const unused = '4194303'
    writeFileSync(pidFile(paths), [unused, ...pidLines(paths).slice(1)].join('\n'))
  }
  for (const name of [`.s.PGSQL.${PORT}`, `.s.PGSQL.${PORT}.lock`]) rmSync(join(paths.sockets, name), { force: true })
}

/** Resolves when the server accepts connections. Throws `postgres_failed` with the last lines of the server's log. */
export const serve = async (binaries: Binaries, paths: ServerPaths): Promise<Server> => {
  const until = Date.now() + DEADLINE
  for (;;) {
    await noServerRuns(paths)
    clearStaleLocks(paths)
    ownData(paths)
    writeAccess(paths)
    const server = launch(binaries, paths)
    const ready = await Promise.race([becomesReady(server, paths, until), server.exited.then(() => false)])
    if (ready) return server
    await server.stop()
    const output = readFileSync(paths.log, 'utf8').trim()
    const inUse = /lock file|pre-existing shared memory/.test(output)
    if (!inUse || Date.now() > until)
      throw new InstarError('postgres_failed', `PostgreSQL did not start: ${output.slice(-600)}`, {
        folder: paths.folder,
        log: paths.log,
      })
    await pause(50)
  }
}

type Launched = Server & { pid: Promise<number> }

const launch = (binaries: Binaries, paths: ServerPaths): Launched => {
  const settings = Object.entries({ ...SETTINGS, unix_socket_directories: paths.sockets }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ])
  const log = openSync(paths.log, 'w', 0o600)
  const child = spawn(
    '/bin/sh',
    ['-c', GUARD, 'sh', binaries.postgres, '-D', paths.data, '-p', String(PORT), ...settings],
    {
      cwd: '/',
      detached: true,
      stdio: ['pipe', 'pipe', log],
      env: { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
      ...(paths.user ?? {}),
    },
  )
  closeSync(log)
  const exited = new Promise<number>((resolve) => {
    child.once('exit', (code) => resolve(code ?? 1))
    child.once('error', () => resolve(1))
  })
  // The pipe breaks if the server ends by itself, which `exited` reports.
  child.stdin?.on('error', () => undefined)
  const pid = firstLine(child).then(Number)
  // The child does not keep the owner's event loop alive; when the owner ends, the guard stops the server.
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

/** Polls postmaster.pid, whose eighth line is `ready` when the server accepts connections. False if it has ended. */
const becomesReady = async (server: Launched, paths: ServerPaths, until: number): Promise<boolean> => {
  const pid = await server.pid
  let ended = false
  void server.exited.then(() => {
    ended = true
  })
  while (!ended && Date.now() < until) {
    const lines = pidLines(paths)
    if (Number(lines[0]) === pid && lines[7]?.trim() === 'ready') return true
    await pause(10)
  }
  return false
}
