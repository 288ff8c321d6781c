/** A client's program, run headless in its own home folder and ended in every case. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

export type Ran = { code: number | null; stdout: string; stderr: string; /** Milliseconds. */ took: number }

/** Two empty folders, the program's home and its work folder, and their removal. */
export type Place = { root: string; home: string; work: string; remove(): Promise<void> }

export const makePlace = async (): Promise<Place> => {
  const root = await mkdtemp(path.join(tmpdir(), 'instar-agent-'))
  const [home, work] = [path.join(root, 'home'), path.join(root, 'work')]
  await Promise.all([home, work].map((folder) => mkdir(folder)))
  return { root, home, work, remove: () => rm(root, { recursive: true, force: true, maxRetries: 5 }) }
}

/** Of this process's environment only PATH. */
export const runProgram = async (
  script: string,
  args: readonly string[],
  { home, work }: Place,
  env: Readonly<Record<string, string>>,
  timeoutMs = 120_000,
): Promise<Ran> => {
  const native = !/\.[cm]?js$/.test(script)
  const begin = performance.now()
  const child = spawn(native ? script : process.execPath, native ? args : [script, ...args], {
    cwd: work,
    detached: process.platform !== 'win32',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: `${path.dirname(process.execPath)}${path.delimiter}${process.env['PATH'] ?? ''}`,
      HOME: home,
      USERPROFILE: home,
      TMPDIR: home,
      XDG_CONFIG_HOME: path.join(home, '.config'),
      LANG: 'C.UTF-8',
      ...env,
    },
  })
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      said[name] += text
    })
  const kill = (): void => {
    try {
      if (child.pid !== undefined) process.kill(process.platform === 'win32' ? child.pid : -child.pid, 'SIGKILL')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  const timer = setTimeout(kill, timeoutMs)
  const [code] = (await once(child, 'close')) as [number | null]
  clearTimeout(timer)
  // Its child processes end with it.
  kill()
  return { ...said, code, took: Math.round(performance.now() - begin) }
}
