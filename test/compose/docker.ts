/** `docker` as a child process, and the compose project of the tests in this folder. */
import { spawn } from 'node:child_process'
import { resolve as absolute } from 'node:path'
import { ROOT } from '../../tools/tree.ts'

export type Said = { code: number | null; out: string; err: string }

/** Chosen by run.ts; no other stack uses it. */
export type Place = { project: string; port: number; ports: string }

export const place = (): Place => {
  const given = process.env['INSTAR_COMPOSE']
  if (!given) throw new Error('run these tests with `npm run test:compose`')
  return JSON.parse(given) as Place
}

/** The environment without variables that would configure the stack. */
export const environment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(INSTAR_|COMPOSE_|POSTGRES_|PG|DATABASE_URL$|NODE_TEST_CONTEXT$|NODE_OPTIONS$)/.test(name),
    ),
  )

/** Killed after `limit` milliseconds; `code` is then null. */
export const docker = (
  args: readonly string[],
  { limit = 120_000, env = {} }: { limit?: number; env?: Record<string, string> } = {},
): Promise<Said> =>
  new Promise((resolve, reject) => {
    const child = spawn('docker', args, {
      cwd: ROOT,
      env: { ...environment(), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: limit,
      killSignal: 'SIGKILL',
    })
    let out = ''
    let err = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      err += text
    })
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, out, err }))
  })

/** Throws with the output unless the exit code is 0. */
export const done = async (args: readonly string[], options: Parameters<typeof docker>[1] = {}): Promise<string> => {
  const { code, out, err } = await docker(args, options)
  if (code !== 0)
    throw new Error(
      `docker ${args.join(' ')}: ${code ?? 'not within its time'}\n${out.slice(-4000)}${err.slice(-4000)}`,
    )
  return out
}

const files = (names: readonly string[]): string[] => names.flatMap((name) => ['-f', absolute(ROOT, name)])

export const composeArgs = ({ project }: Place, args: readonly string[], extra: readonly string[] = []): string[] =>
  // A developer's `.env` must not be read.
  [
    'compose',
    '--env-file',
    '/dev/null',
    '-p',
    project,
    '--project-directory',
    ROOT,
    ...files(['docker-compose.yml', ...extra]),
    '--progress',
    'quiet',
    ...args,
  ]

/** `docker compose …` on the project; `extra`: override files. */
export const compose = (
  args: readonly string[],
  { extra = [], limit = 120_000 }: { extra?: readonly string[]; limit?: number } = {},
): Promise<string> => {
  const here = place()
  return done(composeArgs(here, args, extra), {
    limit,
    env: { INSTAR_PORT: String(here.port), INSTAR_PORTS: here.ports },
  })
}
