/**
 * `npm run simulate -- [--schedules N] [--seed S] [--off RULE]`: that many schedules from seed S on; the first that
 * fails is printed. `npm run simulate -- --mutants [NAME ...]`: each mutant of mutants/table.ts until a schedule
 * detects it, as the rows of the table in docs/simulation.md; it fails if one is not detected.
 */
import { parseArgs } from 'node:util'
import { kill } from './mutants/kill.ts'
import { rowOf } from './mutants/report.ts'
import { MUTANTS } from './mutants/table.ts'
import { RULES, type Rule } from './rules.ts'
import { simulate } from './world.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    schedules: { type: 'string', default: '2000' },
    seed: { type: 'string', default: '1' },
    off: { type: 'string' },
    all: { type: 'boolean', default: false },
    mutants: { type: 'boolean', default: false },
  },
})
const off = values.off === undefined ? null : values.off in RULES ? (values.off as Rule) : undefined
const [schedules, first] = [Number(values.schedules), Number(values.seed)]
const unknown = positionals.filter((name) => !MUTANTS.some((mutant) => mutant.name === name))
if (off === undefined || !Number.isInteger(schedules) || !Number.isInteger(first) || unknown.length > 0) {
  const names = MUTANTS.map(({ name }) => name).join(', ')
  process.stderr.write(
    `--schedules and --seed are whole numbers, --off is one of ${Object.keys(RULES).join(', ')}, mutants are ${names}\n`,
  )
  process.exit(2)
}
const from = performance.now()
const seconds = (): number => Math.round((performance.now() - from) / 100) / 10

if (values.mutants) {
  let alive = 0
  for (const mutant of MUTANTS) {
    if (positionals.length > 0 && !positionals.includes(mutant.name)) continue
    const killed = await kill(mutant, schedules)
    if (killed.schedules === null) alive += 1
    process.stdout.write(`${rowOf(killed)}\n`)
  }
  process.stderr.write(`${alive} mutants were not found within ${schedules} schedules; ${seconds()} s\n`)
  process.exitCode = alive === 0 ? 0 : 1
} else {
  const total = { records: 0, versions: 0, rejected: 0, broken: 0 }
  for (let seed = first; seed < first + schedules; seed += 1) {
    const { problems, records, versions, rejected } = await simulate(seed, off)
    total.records += records
    total.versions += versions
    total.rejected += rejected
    if (problems.length > 0) {
      total.broken += 1
      if (total.broken === 1 || values.all)
        process.stdout.write(
          `seed ${seed}:\n${problems
            .slice(0, 6)
            .map((problem) => `  ${problem}\n`)
            .join('')}`,
        )
      if (!values.all && off === null) break
    }
    if ((seed - first) % 1000 === 999)
      process.stderr.write(`${seed - first + 1} schedules, ${total.broken} broken, ${seconds()} s\n`)
  }
  process.stdout.write(`${JSON.stringify({ schedules, seed: first, off, ...total, seconds: seconds() })}\n`)
  process.exitCode = total.broken === 0 || off !== null ? 0 : 1
}
