/**
 * A child process that cannot outlive this one: a shell in its own process group starts it and waits on a pipe that
 * only this process holds. When this process ends, kill -9 included, the pipe closes and the program is killed.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

const GUARD = `
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
echo $child > "$PID_FILE"
(while read -r line; do :; done; kill -9 $child 2>/dev/null) <&3 &
guard=$!
exec 3<&-
wait $child
status=$?
kill $guard 2>/dev/null
exit $status`

export type Guarded = {
  /** Resolves with the exit code (128 + signal for a signal) when it has ended. */
  readonly exited: Promise<number>
  /** The process id of the program, not of the shell. */
  pid(): number
  signal(signal: NodeJS.Signals): void
  /** SIGKILL; resolves when it has ended. */
  kill(): Promise<void>
  /** The last 3000, or `length`, characters of its output. */
  said(characters?: number): string
}

type GuardedOptions = {
  /** Its output is appended to `<name>.log` in this folder; its process id is in `<name>.pid`. */
  folder: string
  name: string
  cwd?: string
  env?: Record<string, string>
  /** The user that it runs as. */
  user?: { uid: number; gid: number } | null
}

const running = new Set<Guarded>()

const BURIAL_MS = 2000

/** Undefined if it has ended or has no process id yet. */
const signalOf = (pid: () => number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid(), signal)
  } catch (error) {
    if (!['ESRCH', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

export const guarded = (command: readonly string[], { folder, name, cwd, env, user }: GuardedOptions): Guarded => {
  const log = join(folder, `${name}.log`)
  const pidFile = join(folder, `${name}.pid`)
  rmSync(pidFile, { force: true })
  const output = openSync(log, 'a')
  const child = spawn('/bin/sh', ['-c', GUARD, 'guard', ...command], {
    cwd: cwd ?? folder,
    detached: true,
    stdio: ['pipe', output, output],
    env: { ...process.env, ...env, PID_FILE: pidFile },
    ...user,
  })
  closeSync(output)
  child.stdin?.on('error', () => undefined)
  const said = (characters = 3000): string => readFileSync(log, 'utf8').slice(-characters)
  const exited = new Promise<number>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve(code ?? (signal === 'SIGKILL' ? 137 : 143)))
  })
  const one: Guarded = {
    exited,
    said,
    pid() {
      const pid = Number.parseInt(readFileSync(pidFile, 'utf8'), 10)
      if (pid > 0) return pid
      throw Object.assign(new Error(`${name} has no number yet`), { code: 'ENOENT' })
    },
    signal(signal) {
      signalOf(() => -child.pid!, signal)
    },
    async kill() {
      // The program first, so that the shell reaps it: its port must be free when it is started again.
      signalOf(one.pid, 'SIGKILL')
      const late = new AbortController()
      await Promise.race([exited, delay(BURIAL_MS, undefined, { signal: late.signal }).catch(() => undefined)])
      late.abort()
      one.signal('SIGKILL')
      await exited
    },
  }
  running.add(one)
  const gone = (): void => void running.delete(one)
  exited.then(gone, gone)
  return one
}

/** For the end of a run, in every case. */
export const killAll = async (): Promise<void> => {
  await Promise.all([...running].map((one) => one.kill()))
}
