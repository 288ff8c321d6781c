/**
 * `npm run test:int [-- part of a path ...]`: starts Kafka, the schema registry and PostgreSQL as child processes, runs
 * the tests of this folder against them one file after another, and stops everything (`faults.*` start their own
 * brokers). Missing programs that npm does not provide are fetched once into .cache.
 */
import { globSync } from 'node:fs'
import path from 'node:path'
import { runTests } from '../../tools/runner.ts'
import { startStack } from '../kit/stack.ts'

const wanted = process.argv.slice(2)
const files = globSync('*.test.ts', { cwd: import.meta.dirname })
  .toSorted()
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
if (files.length === 0) throw new Error(`no test file matches ${wanted.join(', ')}`)

const begin = performance.now()
const stack = files.every((file) => file.startsWith('faults.')) ? undefined : await startStack()
if (stack) {
  const { brokers, registry, postgres } = stack
  process.stdout.write(
    `Kafka, registry and PostgreSQL are up after ${Math.round((performance.now() - begin) / 1000)} s\n`,
  )
  process.env['INSTAR_INT'] = JSON.stringify({ brokers, registry, postgres })
}
// kafkajs reads NODE_ENV; fault suites test the production setting.
process.env['NODE_ENV'] = 'production'
try {
  const passed = await runTests(
    files.map((file) => path.join(import.meta.dirname, file)),
    { concurrency: 1, timeout: 600_000 },
  )
  process.exitCode ??= passed ? 0 : 1
} finally {
  await stack?.stop()
}
