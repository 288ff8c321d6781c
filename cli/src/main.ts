/** Runs `instar`: the only file of the CLI that reads the environment. */
import { runCli } from './cli.ts'
import { createStopSignal } from './stop-signal.ts'

const err = (text: string): void => void process.stderr.write(text)

process.exitCode = await runCli(process.argv.slice(2), {
  env: process.env,
  cwd: process.cwd(),
  input: process.stdin,
  out: (text) => void process.stdout.write(text),
  err,
  terminal: process.stdout.isTTY,
  ...(process.stdout.isTTY ? { columns: () => process.stdout.columns } : {}),
  stop: createStopSignal(err),
})
