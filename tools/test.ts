/**
 * `npm test [-- part of a path ...]`: the checks, then every *.test.ts by Node's test runner, two files at a
 * time. Prints a line for each file, failures in full, and Node's closing lines. With arguments: only the
 * files whose path holds one of them, test by test, without the checks. A file that runs for more than three
 * minutes fails (watchdog.ts). Not in here: test/model, which fetches a model, test/pack, which installs the package, test/int and test/chaos, which start Kafka, test/compose, which starts
 * containers, test/clients, which fetches other people's programs (its tapes are in here), and bench.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { compact } from './reporter.ts'
import { runTests } from './runner.ts'
import { committable, ROOT } from './tree.ts'

const wanted = process.argv.slice(2)
const files = committable()
  .filter(
    (path) =>
      path.endsWith('.test.ts') &&
      !/^(test\/(model|pack|int|chaos|compose|clients\/(sdk|agents|nightly|python))|bench)\//.test(path),
  )
  .filter((path) => wanted.length === 0 || wanted.some((part) => path.includes(part)))
  .map((path) => join(ROOT, path))

const checked =
  wanted.length > 0 || spawnSync(process.execPath, [join(ROOT, 'tools/check.ts')], { stdio: 'inherit' }).status === 0
if (files.length === 0) {
  process.stderr.write(`no test file matches ${wanted.join(', ')}\n`)
  process.exitCode = 1
} else {
  const passed = await runTests(
    files,
    { concurrency: 2, execArgv: ['--import', join(ROOT, 'tools/watchdog.ts')], cwd: ROOT },
    wanted.length > 0 ? undefined : compact,
  )
  process.exitCode ??= checked && passed ? 0 : 1
}
