/**
 * `npm run test:compose [-- part of a path ...]`: the compose file under its own project name and port, on the Docker
 * engine that answers. Builds the image, runs the tests of this folder, and removes everything in every case.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import path from 'node:path'
import { freePort } from '../kit/stack/ready.ts'
import { runTests } from '../../tools/runner.ts'
import { ROOT } from '../../tools/tree.ts'
import { composeArgs, docker, environment, type Place } from './docker.ts'

/** Reads until the pipe that only this process holds is closed, then runs its command. */
const SWEEP = 'while read -r line; do :; done; exec "$@" >/dev/null 2>&1'

const problem = async (): Promise<string | null> => {
  const asked = ['info', '--format', '{{.ServerVersion}}']
  const engine = await docker(asked).catch((error: unknown) => ({ code: 1, out: '', err: (error as Error).message }))
  if (engine.code !== 0)
    return `no Docker engine answers (${engine.err.trim().split('\n').at(-1)}): start one, or say in DOCKER_HOST where it is`
  const plugin = await docker(['compose', 'version', '--short'])
  const [, major = 0, minor = 0] = /^v?(\d+)\.(\d+)/.exec(plugin.out.trim())?.map(Number) ?? []
  return major > 2 || (major === 2 && minor >= 24)
    ? null
    : `Docker Compose 2.24 or newer is needed, found ${plugin.out.trim() || 'none'}`
}

const seconds = (begin: number): string => `${((performance.now() - begin) / 1000).toFixed(0)} s`

const main = async (): Promise<number> => {
  const wanted = process.argv.slice(2)
  const files = globSync('*.test.ts', { cwd: import.meta.dirname })
    .toSorted()
    .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
  if (files.length === 0) throw new Error(`no test file matches ${wanted.join(', ')}`)
  const missing = await problem()
  if (missing) {
    process.stderr.write(`test:compose: ${missing}.\n`)
    return 1
  }
  const first = await freePort()
  const here: Place = {
    project: `instar-test-${randomBytes(4).toString('hex')}`,
    port: await freePort(),
    ports: `${first}-${Math.min(first + 9, 65_535)}`,
  }
  const interrupted = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => interrupted.abort())
  const sweeper = spawn(
    '/bin/sh',
    [
      '-c',
      SWEEP,
      'sweep',
      'docker',
      ...composeArgs(here, ['--profile', 'tools', 'down', '-v', '-t', '5', '--remove-orphans']),
    ],
    {
      cwd: ROOT,
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: environment(),
    },
  )
  const swept = once(sweeper, 'exit')
  try {
    const begin = performance.now()
    const built = await docker(composeArgs(here, ['build']), { limit: 900_000 })
    if (built.code !== 0) {
      process.stderr.write(
        `${built.out.slice(-4000)}${built.err.slice(-4000)}\ntest:compose: the image was not built.\n`,
      )
      return 1
    }
    process.stdout.write(`the image is there after ${seconds(begin)}; project ${here.project}, port ${here.port}\n`)
    process.env['INSTAR_COMPOSE'] = JSON.stringify(here)
    const passed = await runTests(
      files.map((file) => path.join(import.meta.dirname, file)),
      { concurrency: 1, timeout: 1_200_000 },
    )
    if (!passed) {
      const { out } = await docker(composeArgs(here, ['logs', '--no-color', '--tail', '40']))
      process.stdout.write(out)
    }
    return interrupted.signal.aborted ? 130 : passed ? 0 : 1
  } finally {
    sweeper.stdin.end()
    await swept
  }
}

process.exitCode = await main()
