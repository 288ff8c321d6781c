/** `npm run simulate -- [--schedules N] [--seed S] [--off RULE]`: that many schedules from seed S on; the first that breaks is shown. */
import { parseArgs } from 'node:util'
import { RULES, type Rule } from './rules.ts'
import { simulate } from './world.ts'

const { values } = parseArgs({ options: { schedules: { type: 'string', default: '2000' }, seed: { type: 'string', default: '1' }, off: { type: 'string' }, all: { type: 'boolean', default: false } } })
const off = values.off === undefined ? null : values.off in RULES ? (values.off as Rule) : undefined
const [schedules, first] = [Number(values.schedules), Number(values.seed)]
if (off === undefined || !Number.isInteger(schedules) || !Number.isInteger(first)) {
  process.stderr.write(`--schedules and --seed are whole numbers, --off is one of ${Object.keys(RULES).join(', ')}\n`)
  process.exit(2)
}
const from = performance.now()
const total = { records: 0, versions: 0, rejected: 0, broken: 0 }
for (let seed = first; seed < first + schedules; seed += 1) {
  const { problems, records, versions, rejected } = await simulate(seed, off)
  total.records += records
  total.versions += versions
  total.rejected += rejected
  if (problems.length > 0) {
    total.broken += 1
    if (total.broken === 1 || values.all) process.stdout.write(`seed ${seed}:\n${problems.slice(0, 6).map((problem) => `  ${problem}\n`).join('')}`)
    if (!values.all && off === null) break
  }
  if ((seed - first) % 1000 === 999) process.stderr.write(`${seed - first + 1} schedules, ${total.broken} broken, ${((performance.now() - from) / 1000).toFixed(0)} s\n`)
}
process.stdout.write(`${JSON.stringify({ schedules, seed: first, off, ...total, seconds: Math.round((performance.now() - from) / 100) / 10 })}\n`)
process.exitCode = total.broken === 0 || off !== null ? 0 : 1
