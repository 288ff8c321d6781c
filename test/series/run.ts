/**
 * `npm run test:series [-- PART ...]`: series of updates through trainer and publisher on models/tiny, honest and
 * poisoned, and kills of the whole pipeline while it makes versions. Takes some minutes.
 */
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { runTests } from '../../tools/runner.ts'

const parts = process.argv.slice(2)
const files = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith('.test.ts') && (parts.length === 0 || parts.some((part) => name.includes(part))))
  .map((name) => path.join(import.meta.dirname, name))
const passed = await runTests(files, { concurrency: 2, timeout: 600_000 })
process.exitCode ??= passed ? 0 : 1
