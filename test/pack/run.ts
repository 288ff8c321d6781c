/**
 * `npm run test:pack`: builds the package, installs it into an empty folder with the machine's own Node and npm, and
 * uses it there. Takes one to two minutes, 0.8 GB in the folder of temporary files, and npm packages of the lock (from
 * npm's cache, if it holds them).
 */
import path from 'node:path'
import { runTests } from '../../tools/runner.ts'

const passed = await runTests([path.join(import.meta.dirname, 'pack.test.ts')], { timeout: 900_000 })
process.exitCode ??= passed ? 0 : 1
