/**
 * `npm test [-- PART ...]`: the checks, then every *.test.ts with Node's test runner, two files at a time: three
 * take as long, and starve those that measure memory. Prints a line for each file, failures in full, and the closing lines of Node's TAP reporter. With arguments: only the files
 * whose path contains one of them, test by test, without the checks. A file that runs for more than five minutes fails
 * (watchdog.ts). Excluded: test/model (downloads a model), test/series (minutes of learning and of kills), test/web (drives a browser), test/pack (installs the
 * package), test/int and test/chaos (start Kafka), test/compose (starts containers), test/clients (downloads clients and
 * agents; its tapes are included), and bench.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { compileCache } from './compile-cache.ts'
import { compact } from './reporter.ts'
import { runTests } from './runner.ts'
import { sourceFiles, ROOT } from './tree.ts'

process.env.NODE_COMPILE_CACHE ??= compileCache()

const parts = process.argv.slice(2)
const files = sourceFiles()
  .filter(
    (path) =>
      path.endsWith('.test.ts') &&
      !/^(test\/(model|pack|series|web|int|chaos|compose|clients\/(sdk|agents|nightly|python))|bench)\//.test(path),
  )
  .filter((path) => parts.length === 0 || parts.some((part) => path.includes(part)))
  .map((path) => join(ROOT, path))

const checked =
  parts.length > 0 || spawnSync(process.execPath, [join(ROOT, 'tools/check.ts')], { stdio: 'inherit' }).status === 0
if (files.length === 0) {
  process.stderr.write(`no path of a test file contains ${parts.join(', ')}\n`)
  process.exitCode = 1
} else {
  const passed = await runTests(
    files,
    { concurrency: 2, execArgv: ['--import', join(ROOT, 'tools/watchdog.ts')], cwd: ROOT },
    parts.length > 0 ? undefined : compact,
  )
  process.exitCode ??= checked && passed ? 0 : 1
}
