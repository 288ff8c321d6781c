/** The arguments of `npm run eval`. */
import { parseArgs } from 'node:util'
import { METHODS } from './methods/index.ts'
import type { Method } from './methods/method.ts'
import { GENERAL, TINY, type Population } from './population.ts'
import type { Scenario } from './scenarios.ts'

export type Arguments = {
  help: boolean
  json: boolean
  /** Null: those of the scenario. */
  methods: readonly Method[] | null
  /** Names; null: those that are run by default; ALL: all of the model's. */
  scenarios: readonly string[] | null
  /** Null: as many as the scenario names, from FIRST_SEED on. */
  seeds: readonly number[] | null
  /** Null: those of the scenario. */
  sessions: number | null
  fresh: number | null
  /** Null: that of the environment. */
  model: string | null
  /** A file of finished cells; null: none. */
  cells: string | null
}

/** The arguments are not understood: exit code 2. */
export class UsageError extends Error {}

/** Smaller seeds are for development: what is reported was not tuned on. */
export const FIRST_SEED = 101

const ALL = 'all'

const named = <T extends { name: string }>(option: string, names: readonly string[], known: readonly T[]): T[] =>
  names.flatMap((name) => {
    if (name === ALL) return [...known]
    const found = known.find((one) => one.name === name)
    if (!found)
      throw new UsageError(`--${option} ${name} is none of ${ALL}, ${known.map((one) => one.name).join(', ')}`)
    return found
  })

const count = (option: string, text: string, least: number): number => {
  if (!/^\d{1,6}$/.test(text) || Number(text) < least)
    throw new UsageError(`--${option} ${text} is not a whole number from ${least} to 999999`)
  return Number(text)
}

/** `5`: five seeds from FIRST_SEED on. `7-9`: these. `7,12`: these. */
const seedsOf = (text: string): number[] => {
  const range = /^(\d{1,6})-(\d{1,6})$/.exec(text)
  if (range) {
    const [from, to] = [Number(range[1]), Number(range[2])]
    if (from <= to) return Array.from({ length: to - from + 1 }, (_, i) => from + i)
  }
  if (text.includes(',')) return text.split(',').map((seed) => count('seeds', seed, 0))
  return Array.from({ length: count('seeds', text, 1) }, (_, i) => FIRST_SEED + i)
}

export const seedsFor = ({ seeds }: Pick<Arguments, 'seeds'>, scenario: Scenario): readonly number[] =>
  seeds ?? Array.from({ length: scenario.seeds }, (_, i) => FIRST_SEED + i)

/** Checked against both lists; which of them it is depends on the model's size. */
const scenariosNamed = (text: string | undefined): string[] | null => {
  if (text === undefined) return null
  const names = text.split(',')
  named('scenarios', names, [...TINY.scenarios, ...GENERAL.scenarios.filter(({ name }) => !isOfTiny(name))])
  return names
}
const isOfTiny = (scenario: string): boolean => TINY.scenarios.some(({ name }) => name === scenario)

const byDefault = <T extends { byDefault: boolean }>(known: readonly T[]): T[] => known.filter((one) => one.byDefault)

/** Throws where a scenario that is named has no people for a model of this size. */
export const scenariosFor = ({ scenarios }: Pick<Arguments, 'scenarios'>, population: Population): Scenario[] =>
  scenarios === null ? byDefault(population.scenarios) : named('scenarios', scenarios, population.scenarios)

export const methodsFor = ({ methods }: Pick<Arguments, 'methods'>, scenario: Scenario): readonly Method[] =>
  methods ?? (scenario.methods ? named('methods', scenario.methods, METHODS) : byDefault(METHODS))

export const readArguments = (args: readonly string[]): Arguments => {
  const text = { type: 'string' } as const
  let values
  try {
    ;({ values } = parseArgs({
      args: [...args],
      options: {
        help: { type: 'boolean', short: 'h' },
        json: { type: 'boolean' },
        methods: text,
        scenarios: text,
        seeds: text,
        sessions: text,
        fresh: text,
        model: text,
        cells: text,
      },
    }))
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
  return {
    help: values.help === true,
    json: values.json === true,
    methods: values.methods === undefined ? null : named('methods', values.methods.split(','), METHODS),
    scenarios: scenariosNamed(values.scenarios),
    seeds: values.seeds === undefined ? null : seedsOf(values.seeds),
    sessions: values.sessions === undefined ? null : count('sessions', values.sessions, 4),
    fresh: values.fresh === undefined ? null : count('fresh', values.fresh, 1),
    model: values.model ?? null,
    cells: values.cells ?? null,
  }
}

const listOf = (list: readonly { name: string; summary: string; byDefault: boolean }[]): string =>
  list.map(({ name, summary, byDefault }) => `  ${byDefault ? '*' : ' '} ${name.padEnd(16)} ${summary}`).join('\n')

export const USAGE = `npm run eval [-- OPTIONS]

Compares ways to make use of what people say, on the real gateway, scorer, trainer, publisher and engine. People are
simulated; the judge reads their sentences, and what is measured is a check that no judge knows, on questions that nobody
asked before. One cell is one method in one scenario with one seed.

Methods (--methods A,B or all; * by default):
${listOf(METHODS)}

Scenarios (--scenarios A,B or all; * by default):
${listOf(TINY.scenarios)}

Of a model above 10 million parameters instead, each with methods of its own by default:
${listOf(GENERAL.scenarios)}

  --seeds S      a number of seeds from ${FIRST_SEED} on, a range (7-9) or a list (7,12); default: 5; drift and above 10 M parameters: 1
  --sessions N   sessions of a cell, of all people together; default: ${TINY.scenarios[0]!.sessions}, for drift 1000; above 10 M
                 parameters ${GENERAL.scenarios[0]!.sessions}
  --fresh N      questions of a measurement for each person (default ${TINY.scenarios[0]!.fresh}, above 10 M parameters ${GENERAL.scenarios[0]!.fresh})
  --model M      a Hugging Face folder, a .gguf file, or smollm2, which is fetched once; default: INSTAR_MODEL, models/tiny
  --cells FILE   keep finished cells in FILE, one JSON object a line, and do not run again those that are in it
  --json         one JSON object as the last line: model, machine, cells, summaries

A cell of 48 sessions takes 6 to 11 CPU seconds on models/tiny, 14 to 24 with learning; all by default, some 45 CPU minutes.
Intervals: 95 %, Student's t over seeds. Settings of learning: as for the demo (docs/settings.md), but training.loss.
Exit code 0; 1 if a cell failed; 2 for wrong arguments.
`
