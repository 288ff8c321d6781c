/**
 * `instar` as a user runs it: real processes in their own process groups, which end with the test file in every case.
 * `process.execPath` runs the program directly, so that signals reach the pipeline.
 */
import { ok } from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { adminToken } from '@instar/process/admin-token'
import { adminTokenIn } from '@instar/process'
import OpenAI from 'openai'
import { untilNothingLeft } from '../chaos/world/orphans.ts'
import { ROOT } from '../../tools/tree.ts'

const MAIN = join(ROOT, 'cli/src/main.ts')
const START_MS = 120_000
const STOP_MS = 60_000

/** The line that `up --json` prints when it is ready. */
export type Ready = {
  url: string
  data: string
  psql: string
  engine: string
  learning: string
  model: string
  version: number
  frozen: boolean
}

export type Up = {
  pid: number
  ready: Ready
  client: OpenAI
  said(): string
  /** kill -9 of the pipeline's process. Resolves when it has ended. */
  kill(): Promise<void>
  /** SIGTERM; resolves with the exit code. Rejects when it takes longer than `ms`, by default a minute. */
  stop(ms?: number): Promise<number | null>
}

export type Said = { code: number | null; out: string; err: string; json: unknown }

const groups = new Set<number>()

const killGroup = (pid: number): void => {
  groups.delete(pid)
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
process.on('exit', () => {
  for (const pid of groups) killGroup(pid)
})

export const dataFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-flow-'))
  after(async () => {
    for (const pid of groups) killGroup(pid)
    await untilNothingLeft(folder)
    rmSync(folder, { recursive: true, force: true })
  })
  return join(folder, 'data')
}

/** The environment without variables that configure the pipeline or make a child a test. */
const environment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(INSTAR_|DATABASE_URL$|NODE_TEST_CONTEXT$|NODE_OPTIONS$)/.test(name),
    ),
  )

type Child = {
  child: ChildProcess
  pid: number
  ended: Promise<number | null>
  out: () => string
  err: () => string
  firstLine: Promise<string>
}

const launch = (args: readonly string[], env: NodeJS.ProcessEnv): Child => {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: tmpdir(),
    env: { ...environment(), ...env },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const pid = child.pid!
  groups.add(pid)
  let out = ''
  let err = ''
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const ended = once(child, 'close').then(([code]) => {
    groups.delete(pid)
    return code as number | null
  })
  const firstLine = once(createInterface({ input: child.stdout! }), 'line').then(([line]) => line as string)
  firstLine.catch(() => undefined)
  return { child, pid, ended, out: () => out, err: () => err, firstLine }
}

const within = async <T>(ms: number, what: string, work: Promise<T>): Promise<T> => {
  const over = new AbortController()
  const late = pause(ms, undefined, { signal: over.signal }).then(() => {
    throw new Error(`${what}: not within ${ms / 1000} s`)
  })
  late.catch(() => undefined)
  try {
    return await Promise.race([work, late])
  } finally {
    over.abort()
  }
}

/** A start that may be killed before it is ready, which it must be within `startMs`. */
export const begin = (
  data: string,
  env: Record<string, string> = {},
  startMs = START_MS,
): Child & { up(): Promise<Up> } => {
  const started = launch(['up', '--json', '--port', '0'], { INSTAR_DATA: data, ...env })
  const { child, ended } = started
  return {
    ...started,
    async up() {
      const line = await within(
        startMs,
        'the start',
        Promise.race([
          started.firstLine,
          ended.then((code) => {
            throw new Error(`up ended with ${code}: ${started.err()}`)
          }),
        ]),
      )
      const ready = JSON.parse(line) as Ready
      return {
        pid: started.pid,
        ready,
        said: started.err,
        client: new OpenAI({ baseURL: `${ready.url}/v1`, apiKey: 'none', maxRetries: 0 }),
        async kill() {
          process.kill(started.pid, 'SIGKILL')
          await ended
        },
        async stop(ms = STOP_MS) {
          child.kill('SIGTERM')
          return within(ms, 'the stop', ended)
        },
      }
    },
  }
}

export const up = (data: string, env?: Record<string, string>, startMs?: number): Promise<Up> =>
  begin(data, env, startMs).up()

/** Resolves when the gateway serves this version, which is soon after its record. */
export const serves = async ({ ready }: Up, version: number): Promise<void> => {
  const serving = async (): Promise<number | null> =>
    ((await (await fetch(`${ready.url}/health/ready`)).json()) as { version: number | null }).version
  for (const until = Date.now() + STOP_MS; (await serving()) !== version; await pause(20)) {
    if (Date.now() > until) throw new Error(`version ${version} is not served, but ${await serving()}`)
  }
}

/** `env`: of the commands too, where the pipeline has another model or engine than the defaults. `ms`: their limit. */
type Where = { data: string; url?: string; env?: Record<string, string>; ms?: number }

/** A command on a data folder and, if one runs, on its pipeline. `json`: the last line, with `--json`. */
export const instar = async (where: Where, ...args: string[]): Promise<Said> => {
  const { ended, out, err } = launch(args, {
    ...where.env,
    INSTAR_DATA: where.data,
    INSTAR_PORT: where.url === undefined ? '9' : new URL(where.url).port,
  })
  const code = await within(where.ms ?? START_MS, `instar ${args.join(' ')}`, ended)
  const last = out().trimEnd().split('\n').at(-1) ?? ''
  return { code, out: out(), err: err(), json: args.includes('--json') ? JSON.parse(last) : undefined }
}

/** The headers of a command over HTTP to the pipeline of a data folder. */
export const commanding = (data: string): Record<string, string> => ({
  'content-type': 'application/json',
  'x-instar-admin-token': adminToken(adminTokenIn(data)),
})

/** As `instar`; throws if the command fails. */
export const done = async <T>(where: Where, ...args: string[]): Promise<T> => {
  const said = await instar(where, ...args, '--json')
  ok(said.code === 0, `instar ${args.join(' ')}: ${said.code}\n${said.out}${said.err}`)
  return said.json as T
}

export const sql = <T>(where: { data: string; url?: string }, query: string): Promise<T[]> =>
  done<T[]>(where, 'sql', query)
