/** The current process as a Host. `env` is passed by main.ts, which alone reads the environment. */
import type { Environment } from '../settings.ts'
import { printable } from '../printable.ts'
import type { Host } from './run.ts'

export const hostOf = (env: Environment): Host => {
  const stop = new AbortController()
  // Without a listener a line that a full disk does not take would end the process. Later lines are written again.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort(signal))
  return {
    env,
    cwd: process.cwd(),
    out: (text) => void process.stdout.write(printable(text)),
    err: (text) => void process.stderr.write(printable(text)),
    exit: (code) => process.exit(code),
    stop: stop.signal,
  }
}
