/** `instar`: the one reader of the environment in the CLI. */
import { runCli } from './cli.ts'
import { stopSignal } from './stopping.ts'

const err = (text: string): void => void process.stderr.write(text)

process.exitCode = await runCli(process.argv.slice(2), {
  env: process.env,
  cwd: process.cwd(),
  out: (text) => void process.stdout.write(text),
  err,
  terminal: process.stdout.isTTY,
  stop: stopSignal(err),
})
