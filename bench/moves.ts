/**
 * What it costs those who wait that weights move: 100 streams that are kept going in a gateway of its own process, a
 * minute with 20 publishes and 5 rollbacks between two half minutes without. Every stream is checked afterwards.
 */
import { moving, type Stream } from '../test/flow/moves/moving.ts'
import { machine, median, quantile, rounded } from './machine.ts'

type MovesRow = { what: string; count: number; p50: number; p99: number }
export type Report = {
  name: string
  machine: string
  streams: number
  failed: number
  mixed: number
  versions: number
  worstNats: number
  otherNats: number
  rows: MovesRow[]
}
type MovesOptions = { quick?: boolean; say?: (line: string) => void }

const rowOf = (what: string, values: readonly number[]): MovesRow => ({
  what,
  count: values.length,
  p50: rounded(median(values)),
  p99: rounded(quantile(values, 0.99)),
})

export const bench = async ({ quick = false, say = () => undefined }: MovesOptions = {}): Promise<Report> => {
  const minute = quick ? 10 : 60
  const quiet = { seconds: minute / 2, publishes: 0, rollbacks: 0 }
  const { streams, moves, mixed } = await moving(
    [
      { ...quiet, seconds: minute / 6 },
      quiet,
      { seconds: minute, publishes: quick ? 4 : 20, rollbacks: quick ? 1 : 5 },
      quiet,
    ],
    say,
  )
  const well = streams.filter(({ fault }) => fault === null)
  const begunIn = (...stretches: number[]): Stream[] => well.filter(({ stretch }) => stretches.includes(stretch))
  const rows = (
    [
      ['without moves', begunIn(1, 3)],
      ['while they move', begunIn(2)],
    ] as const
  ).flatMap(([when, found]) => [
    rowOf(
      `first token, ms, ${when}`,
      found.map(({ firstMs }) => firstMs),
    ),
    rowOf(
      `whole answer, ms a token, ${when}`,
      found.filter(({ tokens }) => tokens > 0).map(({ allMs, tokens }) => allMs / tokens),
    ),
    rowOf(
      `whole answer, ms, ${when}`,
      found.map(({ allMs }) => allMs),
    ),
  ])
  rows.push(
    rowOf(
      'publish → served, ms',
      moves.flatMap(({ rollback, servedMs }) => (rollback ? [] : [servedMs])),
    ),
    rowOf(
      'rollback → served, ms',
      moves.flatMap(({ rollback, servedMs }) => (rollback ? [servedMs] : [])),
    ),
  )
  return {
    name: 'serving while weights move',
    machine: machine(),
    streams: streams.length,
    failed: streams.length - well.length,
    mixed: mixed.wrong.length,
    versions: mixed.versions,
    worstNats: rounded(mixed.worst),
    otherNats: rounded(mixed.other),
    rows,
  }
}

if (import.meta.main) {
  const { rows, ...report } = await bench({
    quick: process.argv.includes('--quick'),
    say: (line) => {
      console.error(line)
    },
  })
  console.log(report)
  console.table(rows)
}
