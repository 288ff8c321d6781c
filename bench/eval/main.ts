/** `npm run eval`: runs the cells that are asked for and prints a table of each scenario. */
import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { readSettings, sizeOfModel, type Settings } from '@instar/process'
import { fetchSmolLM2, modelCache } from '../../cli/src/smollm2.ts'
import { machine } from '../machine.ts'
import { methodsFor, readArguments, scenariosFor, seedsFor, USAGE, UsageError, type Arguments } from './arguments.ts'
import { runCell, type Cell } from './cell.ts'
import { startEngines } from './engines.ts'
import { openCells } from './kept-cells.ts'
import { GENERAL, TINY } from './population.ts'
import { reportText, summaries } from './report.ts'

/** Of the progress of a cell, where it is not shown on a terminal. */
const LINES = 6

const err = (text: string): void => void process.stderr.write(text)

const settingsOf = async ({ model }: Arguments): Promise<Settings> => {
  const env = model === null ? process.env : { ...process.env, INSTAR_MODEL: model }
  const settings = readSettings(env, process.cwd())
  const fetched = model !== null && basename(model) === 'smollm2' && !existsSync(model)
  return fetched ? { ...settings, model: await fetchSmolLM2(modelCache(settings.data)) } : settings
}

/** The number of cells that failed. */
const run = async (args: Arguments): Promise<number> => {
  const kept = openCells(args.cells)
  const engines = await startEngines(await settingsOf(args))
  const { model, learning } = engines
  const population = sizeOfModel(learning.parameters)?.name === 'tiny' ? TINY : GENERAL
  const changed = learning.values.filter(({ origin }) => !['default', 'size'].includes(origin.from))
  const cells: Cell[] = []
  const bases: Parameters<typeof runCell>[0]['bases'] = new Map()
  let failed = 0
  const startedAt = performance.now()
  let ran = 0
  try {
    const todo = scenariosFor(args, population).flatMap((scenario) =>
      seedsFor(args, scenario).flatMap((seed) =>
        methodsFor(args, scenario).map((method) => ({ scenario, seed, method })),
      ),
    )
    err(`${model.name}, ${engines.serving.capabilities().fingerprint}; ${todo.length} cells\n`)
    for (const { name, value } of changed) err(`${name} ${JSON.stringify(value)}\n`)
    for (const [at, { scenario, seed, method }] of todo.entries()) {
      const size = { sessions: args.sessions ?? scenario.sessions, fresh: args.fresh ?? scenario.fresh }
      const what = `${at + 1}/${todo.length} ${scenario.name} ${method.name} seed ${seed}`
      const known = kept.find({
        ...size,
        scenario: scenario.name,
        method: method.name,
        seed,
        model: model.sha256,
        population: population.name,
      })
      if (known) {
        cells.push(known)
        continue
      }
      const cellAt = performance.now()
      const onSession = (ended: number, of: number): void => {
        const left = ((performance.now() - cellAt) / ended) * (of - ended)
        const line = `${what}: session ${ended} of ${of}, about ${Math.ceil(left / 60_000)} min of this cell left`
        if (process.stderr.isTTY) err(`\r${line} `)
        else if (ended % Math.ceil(of / LINES) === 0) err(`${line}\n`)
      }
      try {
        const cell = await runCell({ engines, population, bases, onSession }, scenario, method, seed, size)
        kept.keep(cell)
        cells.push(cell)
        ran += 1
        const left = ((performance.now() - startedAt) / ran) * (todo.length - at - 1)
        err(
          `${process.stderr.isTTY ? '\r' : ''}${what}: ${cell.wantedBase.toFixed(2)} → ${cell.wanted.toFixed(2)}, ` +
            `${cell.versions} versions, ${cell.wallSeconds.toFixed(0)} s (CPU ${cell.cpuSeconds.toFixed(0)} s); ` +
            `about ${Math.ceil(left / 60_000)} min left\n`,
        )
      } catch (error) {
        failed += 1
        err(`${what} failed: ${(error as Error).stack ?? String(error)}\n`)
      }
    }
  } finally {
    await engines.close()
  }
  const rows = summaries(cells)
  const summaryOf = (name: string): string =>
    `${name}: ${population.scenarios.find((one) => one.name === name)?.summary ?? ''}`
  if (args.json)
    process.stdout.write(
      `${JSON.stringify({ model: { name: model.name, sha256: model.sha256 }, machine: machine(), settings: Object.fromEntries(changed.map(({ name, value }) => [name, value])), failed, cells, summaries: rows })}\n`,
    )
  else process.stdout.write(`${machine()}\n\n${reportText(rows, summaryOf)}`)
  return failed
}

try {
  const args = readArguments(process.argv.slice(2))
  if (args.help) process.stdout.write(USAGE)
  else process.exitCode = (await run(args)) === 0 ? 0 : 1
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  err(`${error.message}\n\n${USAGE}`)
  process.exitCode = 2
}
