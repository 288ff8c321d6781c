/** Starts the processes of the gateway bench and reads their resource usage from /proc. */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Outcome, Run } from './client.ts'

/** User and system time, and resident memory, of a process and its descendants. */
export type Usage = { cpuMs: number; megabytes: number }

/** Clock ticks of /proc per second (USER_HZ). */
const HERTZ = 100
const PAGE_BYTES = 4096

type Stat = { pid: number; parent: number; ticks: number; pages: number }

const statOf = async (pid: string): Promise<Stat | null> => {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8')
    // The fields after the command name, which may contain spaces.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return {
      pid: Number(pid),
      parent: Number(fields[1]),
      ticks: Number(fields[11]) + Number(fields[12]),
      pages: Number(fields[21]),
    }
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
}

/** Resolution of the CPU time: 10 ms. */
export const readUsage = async (pid: number): Promise<Usage> => {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const stats = (await Promise.all(pids.map(statOf))).filter((stat) => stat !== null)
  const tree = new Set([pid])
  for (let before = 0; before < tree.size;) {
    before = tree.size
    for (const stat of stats) if (tree.has(stat.parent)) tree.add(stat.pid)
  }
  const own = stats.filter((stat) => tree.has(stat.pid))
  const sum = (of: (stat: Stat) => number): number => own.reduce((total, stat) => total + of(stat), 0)
  return {
    cpuMs: (1000 * sum(({ ticks }) => ticks)) / HERTZ,
    megabytes: (PAGE_BYTES * sum(({ pages }) => pages)) / 1e6,
  }
}

export type Server = { port: number; pid: number; stop(): Promise<void> }

const ENV = { ...process.env, NODE_ENV: 'production', NODE_NO_WARNINGS: '1' }

/** `failed` rejects when the process ends. */
const watchExit = (child: ChildProcess, name: string): { exited: Promise<unknown>; failed: Promise<never> } => {
  const exited = once(child, 'exit')
  const failed = exited.then(([code]) => {
    throw new Error(`${name} ended with exit code ${String(code)}`)
  })
  failed.catch(() => undefined)
  return { exited, failed }
}

/** Starts a program of this bench, which sends its port by IPC and ends when it is disconnected. `flags`: of Node. */
export const startProgram = async (
  file: string,
  args: readonly string[] = [],
  flags: readonly string[] = [],
): Promise<Server> => {
  const child = fork(file, args, {
    execArgv: [...process.execArgv, ...flags],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: ENV,
  })
  const { exited, failed } = watchExit(child, file)
  const [port] = (await Promise.race([once(child, 'message'), failed])) as [number]
  return {
    port,
    pid: child.pid!,
    async stop() {
      if (child.connected) child.disconnect()
      await exited
    },
  }
}

/** Starts another program; resolves when it answers at `path`. Throws if it does not within `ms`. */
export const startExternal = async (
  command: string,
  args: readonly string[],
  { port, path, env, ms }: { port: number; path: string; env: Record<string, string>; ms: number },
): Promise<Server> => {
  const child = spawn(command, args, { stdio: 'ignore', env: { ...ENV, ...env } })
  const { exited, failed } = watchExit(child, command)
  const waitUntilReady = async (): Promise<void> => {
    for (const deadline = performance.now() + ms; performance.now() < deadline;) {
      const ready = await fetch(`http://127.0.0.1:${port}${path}`).then(
        (response) => response.status < 500,
        () => false,
      )
      if (ready) return
      await new Promise((resolve) => {
        setTimeout(resolve, 200)
      })
    }
    throw new Error(`${command} did not answer within ${ms / 1000} s`)
  }
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    const killTimer = setTimeout(() => child.kill('SIGKILL'), 5000)
    await exited
    clearTimeout(killTimer)
  }
  try {
    await Promise.race([waitUntilReady(), failed])
  } catch (error) {
    if (child.exitCode === null) await stop()
    throw error
  }
  return { port, pid: child.pid!, stop }
}

/** `beforeLoad`: awaited before the first request. */
export type Client = { run(run: Run, beforeLoad: () => Promise<void>): Promise<Outcome>; stop(): Promise<void> }

export const startClient = async (): Promise<Client> => {
  const child = fork(join(import.meta.dirname, 'client.ts'), [], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: ENV,
  })
  const { exited, failed } = watchExit(child, 'the client')
  const nextMessage = async <T>(): Promise<T> => ((await Promise.race([once(child, 'message'), failed])) as [T])[0]
  await nextMessage()
  return {
    async run(run, beforeLoad) {
      const ready = nextMessage()
      child.send(run)
      await ready
      await beforeLoad()
      const outcome = nextMessage<Outcome>()
      child.send('go')
      return outcome
    },
    async stop() {
      if (child.connected) child.disconnect()
      await exited
    },
  }
}
