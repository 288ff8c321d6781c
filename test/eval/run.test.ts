/** `npm run eval` through the real pipeline, and its arguments. */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  FIRST_SEED,
  methodsFor,
  readArguments,
  scenariosFor,
  seedsFor,
  UsageError,
} from '../../bench/eval/arguments.ts'
import type { Cell } from '../../bench/eval/cell.ts'
import { intervalText, summaries, type Summary } from '../../bench/eval/report.ts'
import { GENERAL, TINY } from '../../bench/eval/population.ts'
import { SCENARIOS } from '../../bench/eval/scenarios.ts'

type Printed = { cells: Cell[]; summaries: Summary[]; settings: Record<string, unknown> }

const root = join(import.meta.dirname, '../..')

/** Batches of six turns, so that six sessions make an update. */
const SETTINGS = JSON.stringify({ training: { batchSize: 6 } })

const evaluate = async (...args: string[]): Promise<{ code: number | null; out: string; err: string }> => {
  const env = { ...process.env, INSTAR_SETTINGS: SETTINGS }
  const child = spawn(process.execPath, ['bench/eval/main.ts', ...args], { cwd: root, env })
  const [out, err, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<number | null>((resolve) => {
      child.once('exit', (status) => resolve(status))
    }),
  ])
  return { code, out, err }
}

test('six sessions: cells with their figures, kept in a file and not run again', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-eval-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'cells.jsonl')
  const args = ['--scenarios', 'liar', '--seeds', '7-7', '--sessions', '6', '--fresh', '2', '--cells', file, '--json']
  const { code, out, err } = await evaluate(...args, '--methods', 'none,memory,hybrid')
  equal(code, 0, err)
  const { cells, summaries: rows, settings } = JSON.parse(out) as Printed
  deepEqual(settings, { 'training.batchSize': 6 })
  deepEqual(
    cells.map(({ scenario, method, seed, sessions }) => `${scenario} ${method} ${seed} ${sessions}`),
    ['liar none 7 6', 'liar memory 7 6', 'liar hybrid 7 6'],
  )
  for (const cell of cells) {
    equal(cell.people.length, 3)
    equal(cell.facts!.asked, 9)
    ok(cell.wanted >= 0 && cell.wanted <= 1)
    equal(cell.wantedBase, cells[0]!.wantedBase)
  }
  deepEqual(
    { ...cells[0]!.readings, wanted: cells[0]!.wanted },
    { right: 0, none: 0, wrong: 0, wanted: cells[0]!.wantedBase },
  )
  // Each of six sessions has a reaction to its first answer.
  for (const { readings } of cells.slice(1)) ok(readings.right + readings.none + readings.wrong >= 6)
  equal(rows.length, 3)
  const [none, memory, hybrid] = cells
  deepEqual([none!.versions, none!.promptTokens, memory!.versions, hybrid!.promptTokens], [0, 0, 0, 0])
  ok(hybrid!.versions + hybrid!.refused >= 1)

  const kept = readFileSync(file, 'utf8')
  equal(kept.trim().split('\n').length, 3)
  // The line of a run that was killed.
  appendFileSync(file, '{"scenario":"li')
  const again = await evaluate(...args, '--methods', 'none,memory,hybrid')
  equal(again.code, 0, again.err)
  deepEqual((JSON.parse(again.out) as Printed).cells, cells)
})

test('wrong arguments end with code 2 and the usage', async () => {
  const wrong = await evaluate('--methods', 'hybird')
  equal(wrong.code, 2)
  match(wrong.err, /--methods hybird is none of all, none, memory, skills, binary/)
  match(wrong.err, /contradictory +two people with opposite wishes/)
  ok(readArguments(['-h']).help)
})

test('seeds are a number, a range or a list; each scenario has its own number of them and of sessions', () => {
  const seeds = (argument: string) => readArguments(['--seeds', argument]).seeds
  deepEqual(seeds('3'), [FIRST_SEED, FIRST_SEED + 1, FIRST_SEED + 2])
  deepEqual(seeds('7-9'), [7, 8, 9])
  deepEqual(seeds('7,12'), [7, 12])
  for (const wrong of ['0', '9-7', 'x', '7,x', '-1', '1.5']) throws(() => seeds(wrong), UsageError, wrong)
  throws(() => readArguments(['--sessions', '3']), UsageError)
  throws(() => readArguments(['--nothing']), UsageError)
  throws(() => readArguments(['surplus']), UsageError)
  const none = readArguments([])
  equal(scenariosFor(none, TINY).length, SCENARIOS.length - 1)
  deepEqual(
    methodsFor(none, SCENARIOS[0]!).map(({ name }) => name),
    ['none', 'memory', 'skills', 'binary', 'opd', 'hybrid', 'hybrid-separate'],
  )
  const all = readArguments(['--methods', 'all', '--scenarios', 'all'])
  equal(methodsFor(all, SCENARIOS[0]!).length, 9)
  equal(scenariosFor(all, TINY).length, SCENARIOS.length)
  deepEqual(
    SCENARIOS.map((scenario) => `${scenario.name} ${seedsFor(none, scenario).length}`),
    ['steady 5', 'tastes 5', 'contradictory 5', 'changed 5', 'wrong 5', 'liar 5', 'drift 1'],
  )
})

test('a general model: scenarios and methods of its own, one seed each; scenarios without people for it are refused', () => {
  const none = readArguments([])
  deepEqual(
    scenariosFor(none, GENERAL).map((one) => [
      one.name,
      methodsFor(none, one)
        .map(({ name }) => name)
        .join(' '),
      seedsFor(none, one).length,
    ]),
    [
      ['steady', 'none memory skills hybrid opd binary', 1],
      ['contradictory', 'none memory skills hybrid hybrid-separate', 1],
      ['changed', 'none memory skills hybrid', 1],
      ['wrong', 'none memory skills hybrid', 1],
    ],
  )
  const named = readArguments(['--methods', 'none,hybrid', '--scenarios', 'liar,wrong'])
  equal(methodsFor(named, GENERAL.scenarios[0]!).length, 2)
  equal(scenariosFor(named, TINY).length, 2)
  throws(() => scenariosFor(named, GENERAL), UsageError)
})

const cellOf = (method: string, seed: number, wanted: number): Cell => ({
  scenario: 'liar',
  method,
  seed,
  sessions: 6,
  fresh: 2,
  model: 'm',
  population: 'tiny',
  wanted,
  wantedBase: 0.25,
  correct: 0.75,
  correctBase: 1,
  people: [],
  facts: { asked: 9, right: 8, flipped: seed, lies: 1 },
  versions: seed,
  refused: 1,
  klBase: method === 'none' ? null : 0.5,
  promptTokens: 10 * seed,
  readings: { right: 6, none: 3, wrong: 1 },
  quarters: [0, 0.25 * seed, 0.5, 1],
  wallSeconds: 2,
  cpuSeconds: 1,
})

test('a summary has means and intervals over seeds, sums of facts, and the paired difference from hybrid', () => {
  const [none, hybrid] = summaries([
    cellOf('none', 1, 0.25),
    cellOf('none', 2, 0.5),
    cellOf('hybrid', 1, 0.75),
    cellOf('hybrid', 2, 1),
  ])
  deepEqual(none!.seeds, [1, 2])
  equal(none!.wanted.mean, 0.375)
  equal(none!.gain.mean, 0.125)
  equal(intervalText(none!.versusHybrid!), '-0.50 [-0.50, -0.50]')
  deepEqual(none!.facts, { asked: 18, right: 16, flipped: 3, lies: 2 })
  deepEqual([none!.versions, none!.refused, none!.promptTokens, none!.klBase], [1.5, 1, 15, null])
  deepEqual(none!.quarters, [0, 0.375, 0.5, 1])
  deepEqual(none!.read, { right: 0.6, none: 0.3, wrong: 0.1 })
  equal(hybrid!.versusHybrid, null)
  equal(hybrid!.klBase, 0.5)
  deepEqual(hybrid!.contentChange, { n: 2, mean: -0.25, low: -0.25, high: -0.25 })
})
