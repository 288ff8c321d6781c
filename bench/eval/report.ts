/** Cells of a run as summaries over seeds, and as text. */
import { table } from '../../cli/src/table.ts'
import type { Cell } from './cell.ts'
import { intervalOf, meanOf, pairedDifference, type Interval } from './statistics.ts'

export type Summary = {
  scenario: string
  method: string
  seeds: number[]
  sessions: number
  /** Share of first replies as wanted, and how much of it is more than the base's, by seed. */
  wanted: Interval
  gain: Interval
  /** `wanted` less that of hybrid with one adapter for all, by seed. */
  versusHybrid: Interval | null
  /** Share of replies with the right content, less the base's, by seed. */
  contentChange: Interval
  /** Sums over the seeds. */
  facts: { asked: number; right: number; flipped: number; lies: number } | null
  versions: number
  refused: number
  klBase: number | null
  promptTokens: number
  /** Of the reactions, the shares that were read with the sign of their words, without an opinion, with the other. */
  read: { right: number; none: number; wrong: number } | null
  /** Share of first replies as wanted in each quarter of the sessions. */
  quarters: number[]
  wallSeconds: number
  cpuSeconds: number
}

const REFERENCE = 'hybrid'

const bySeed = (cells: readonly Cell[], of: (cell: Cell) => number): Map<number, number> =>
  new Map(cells.map((cell) => [cell.seed, of(cell)]))

/** One for each scenario and method, in the order of the cells. */
export const summaries = (cells: readonly Cell[]): Summary[] => {
  const groups = Map.groupBy(cells, ({ scenario, method }) => `${scenario}\n${method}`)
  return [...groups.values()].map((group) => {
    const { scenario, method, sessions } = group[0]!
    const reference = groups.get(`${scenario}\n${REFERENCE}`)
    const mean = (of: (cell: Cell) => number): number => meanOf(group.map(of))
    const klBases = group.flatMap(({ klBase }) => klBase ?? [])
    const sum = (of: (cell: Cell) => number): number => group.reduce((total, cell) => total + of(cell), 0)
    const reactions = sum(({ readings }) => readings.right + readings.none + readings.wrong)
    const wanted = bySeed(group, (cell) => cell.wanted)
    return {
      scenario,
      method,
      seeds: group.map(({ seed }) => seed),
      sessions,
      wanted: intervalOf([...wanted.values()]),
      gain: intervalOf(group.map((cell) => cell.wanted - cell.wantedBase)),
      versusHybrid:
        reference && method !== REFERENCE
          ? pairedDifference(
              wanted,
              bySeed(reference, (cell) => cell.wanted),
            )
          : null,
      contentChange: intervalOf(group.map((cell) => cell.correct - cell.correctBase)),
      facts: group.some(({ facts }) => facts !== null)
        ? {
            asked: sum(({ facts }) => facts?.asked ?? 0),
            right: sum(({ facts }) => facts?.right ?? 0),
            flipped: sum(({ facts }) => facts?.flipped ?? 0),
            lies: sum(({ facts }) => facts?.lies ?? 0),
          }
        : null,
      versions: mean((cell) => cell.versions),
      refused: mean((cell) => cell.refused),
      klBase: klBases.length === 0 ? null : meanOf(klBases),
      promptTokens: mean((cell) => cell.promptTokens),
      read:
        reactions === 0
          ? null
          : {
              right: sum(({ readings }) => readings.right) / reactions,
              none: sum(({ readings }) => readings.none) / reactions,
              wrong: sum(({ readings }) => readings.wrong) / reactions,
            },
      quarters: group[0]!.quarters.map((_, i) => mean(({ quarters }) => quarters[i] ?? Number.NaN)),
      wallSeconds: mean((cell) => cell.wallSeconds),
      cpuSeconds: mean((cell) => cell.cpuSeconds),
    }
  })
}

const share = (value: number): string => value.toFixed(2)
const signed = (value: number): string => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(2)}`
/** `0.80 [0.71, 0.89]`; of one seed the value alone. */
export const intervalText = ({ mean, low, high }: Interval, text: (value: number) => string = share): string =>
  low === null || high === null ? text(mean) : `${text(mean)} [${text(low)}, ${text(high)}]`

/** One table for each scenario. */
export const reportText = (rows: readonly Summary[], describe: (scenario: string) => string): string =>
  [...Map.groupBy(rows, ({ scenario }) => scenario)]
    .map(
      ([scenario, methods]) =>
        `${describe(scenario)}; ${methods[0]!.sessions} sessions, ${methods[0]!.seeds.length} seeds\n` +
        table(
          [
            { name: scenario, of: (row) => row.method },
            { name: 'first replies as wanted', of: (row) => intervalText(row.wanted) },
            { name: 'less that of hybrid', of: (row) => row.versusHybrid && intervalText(row.versusHybrid, signed) },
            { name: 'content change', of: (row) => intervalText(row.contentChange, signed) },
            { name: 'facts flipped', of: (row) => row.facts && `${row.facts.flipped} of ${row.facts.right}` },
            { name: 'versions (refused)', of: (row) => `${row.versions.toFixed(1)} (${row.refused.toFixed(1)})` },
            { name: 'KL to base', of: (row) => row.klBase?.toFixed(3) },
            { name: 'prompt tokens', of: (row) => Math.round(row.promptTokens) },
            {
              name: 'reactions read right/not/wrong',
              of: (row) => row.read && `${share(row.read.right)}/${share(row.read.none)}/${share(row.read.wrong)}`,
            },
            {
              name: 'in the sessions, by quarter',
              of: (row) => (row.quarters.length === 0 ? null : row.quarters.map(share).join(' ')),
            },
            { name: 'wall s', of: (row) => Math.round(row.wallSeconds) },
            { name: 'CPU s', of: (row) => Math.round(row.cpuSeconds) },
          ],
          methods,
        ),
    )
    .join('\n')
