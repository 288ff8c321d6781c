/** Installs the SkyRL of the nightly tests into .cache, if it is not there. Exit code 1 where that cannot be done. */
import { installed } from './skyrl.ts'

try {
  process.stdout.write(`${installed()}\n`)
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exitCode = 1
}
