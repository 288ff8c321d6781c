/** Processes of the bench, and what they use by the kernel's own account. */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Outcome, Run } from './client.ts'

/** Milliseconds of user and system time, and resident megabytes, of a process and those below it. */
export type Used = { cpuMs: number; megabytes: number }

/** Ticks of /proc a second, on every Linux. */
const HERTZ = 100
const PAGE_BYTES = 4096

type Stat = { pid: number; parent: number; ticks: number; pages: number }

const statOf = async (pid: string): Promise<Stat | null> => {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8')
    // The name before may hold blanks.
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

/** To 10 ms. */
export const usedBy = async (pid: number): Promise<Used> => {
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

/** What has ended without being asked to fails whatever waits for it. */
const ending = (child: ChildProcess, name: string): { exited: Promise<unknown>; failed: Promise<never> } => {
  const exited = once(child, 'exit')
  const failed = exited.then(([code]) => {
    throw new Error(`${name} ended with ${String(code)}`)
  })
  failed.catch(() => undefined)
  return { exited, failed }
}

/** One of this folder's programs, which tells its port and ends when it is disconnected. `flags`: Node's. */
export const startProgram = async (
  file: string,
  words: readonly string[] = [],
  flags: readonly string[] = [],
): Promise<Server> => {
  const child = fork(file, words, {
    execArgv: [...process.execArgv, ...flags],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: ENV,
  })
  const { exited, failed } = ending(child, file)
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

/** Somebody else's program, which is there when `path` is answered. */
export const startForeign = async (
  command: string,
  words: readonly string[],
  { port, path, env, ms }: { port: number; path: string; env: Record<string, string>; ms: number },
): Promise<Server> => {
  const child = spawn(command, words, { stdio: 'ignore', env: { ...ENV, ...env } })
  const { exited, failed } = ending(child, command)
  const there = async (): Promise<void> => {
    for (const until = performance.now() + ms; performance.now() < until;) {
      const answered = await fetch(`http://127.0.0.1:${port}${path}`).then(
        (response) => response.status < 500,
        () => false,
      )
      if (answered) return
      await new Promise((resolve) => {
        setTimeout(resolve, 200)
      })
    }
    throw new Error(`${command} did not answer within ${ms / 1000} s`)
  }
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    const force = setTimeout(() => child.kill('SIGKILL'), 5000)
    await exited
    clearTimeout(force)
  }
  try {
    await Promise.race([there(), failed])
  } catch (error) {
    if (child.exitCode === null) await stop()
    throw error
  }
  return { port, pid: child.pid!, stop }
}

/** `begin`: called just before the load begins, which waits for it. */
export type Client = { run(run: Run, begin: () => Promise<void>): Promise<Outcome>; stop(): Promise<void> }

export const startClient = async (): Promise<Client> => {
  const child = fork(join(import.meta.dirname, 'client.ts'), [], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: ENV,
  })
  const { exited, failed } = ending(child, 'the client')
  const heard = async <T>(): Promise<T> => ((await Promise.race([once(child, 'message'), failed])) as [T])[0]
  await heard()
  return {
    async run(run, begin) {
      const began = heard()
      child.send(run)
      await began
      await begin()
      const outcome = heard<Outcome>()
      child.send('go')
      return outcome
    },
    async stop() {
      if (child.connected) child.disconnect()
      await exited
    },
  }
}
