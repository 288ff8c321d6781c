/** This process as a Host; `env` comes from main.ts, the one reader of the environment. */
import type { Environment } from '../environment.ts'
import type { Host } from './run.ts'

export const hostOf = (env: Environment): Host => {
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort(signal))
  return {
    env,
    cwd: process.cwd(),
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    exit: (code) => process.exit(code),
    stop: stop.signal,
  }
}
