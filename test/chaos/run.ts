/**
 * `npm run test:chaos [-- --short] [part of a path ...]`: the services as separate processes on a real Kafka, registry
 * and PostgreSQL, with faults. Each file starts its own stack and removes it. `--short`: fewer turns and rounds, two
 * files at a time, for every push. INSTAR_SEED changes the times of faults.
 */
import { globSync } from 'node:fs'
import path from 'node:path'
import { runTests } from '../../tools/runner.ts'

const given = process.argv.slice(2)
const short = given.includes('--short')
const wanted = given.filter((one) => one !== '--short')
/** `test:int` runs this for the log alone on every push. */
const LONG = ['three-brokers.test.ts', 'orphans.test.ts']
const files = globSync('*.test.ts', { cwd: import.meta.dirname })
  .toSorted()
  .filter((file) =>
    wanted.length === 0 ? !(short && LONG.includes(file)) : wanted.some((part) => file.includes(part)),
  )
if (files.length === 0) throw new Error(`no test file matches ${wanted.join(', ')}`)

if (short) process.env['INSTAR_SHORT'] = '1'
process.env['INSTAR_SEED'] ??= String(Math.floor(Math.random() * 1e6))
// kafkajs and other libraries read NODE_ENV; the production setting is tested.
process.env['NODE_ENV'] = 'production'
process.stdout.write(`seed ${process.env['INSTAR_SEED']}\n`)

const passed = await runTests(
  files.map((file) => path.join(import.meta.dirname, file)),
  { concurrency: short ? 2 : 1 },
)
process.exitCode ??= passed ? 0 : 1
