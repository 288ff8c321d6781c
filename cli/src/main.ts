/** Runs `instar`: the only file of the CLI that reads the environment. */
import { runCli } from './cli.ts'
import { createStopSignal } from './stop-signal.ts'

const err = (text: string): void => void process.stderr.write(text)

/**
 * Output that was not written, to a full disk for instance, does not end the pipeline of `up`; a command has then not
 * done what was asked. A reader that went away (`| head`) has what it wanted.
 */
let lost = false
process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE') return
  if (!lost) err(`instar: output is lost: ${message}\n`)
  lost = true
  process.exitCode = 1
})
process.stderr.on('error', () => undefined)

const code = await runCli(process.argv.slice(2), {
  env: process.env,
  cwd: process.cwd(),
  input: process.stdin,
  out: (text) => void process.stdout.write(text),
  err,
  terminal: process.stdout.isTTY,
  ...(process.stdout.isTTY ? { columns: () => process.stdout.columns } : {}),
  stop: createStopSignal(err),
})
process.exitCode = lost ? 1 : code
