/**
 * Latency of 100 concurrent streams while the weights change: a minute with 20 publishes and 5 rollbacks between two
 * half minutes without. The gateway is a separate process. Afterwards every stream is checked for tokens of other
 * versions.
 */
import { moving, type Stream } from '../test/flow/moves/moving.ts'
import { machine, median, quantile, rounded } from './machine.ts'

type MovesRow = { what: string; count: number; p50: number; p99: number }
/**
 * `mixed`: streams with a token of another version. `worstNats`: largest difference between the log-prob of a streamed
 * token and the one recomputed under the version of its header; `otherNats`: smallest difference that a stream has
 * under a neighbouring version.
 */
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
type MovesOptions = { quick?: boolean; logLine?: (line: string) => void }

const rowOf = (what: string, values: readonly number[]): MovesRow => ({
  what,
  count: values.length,
  p50: rounded(median(values)),
  p99: rounded(quantile(values, 0.99)),
})

export const bench = async ({ quick = false, logLine = () => undefined }: MovesOptions = {}): Promise<Report> => {
  const seconds = quick ? 10 : 60
  const constant = { seconds: seconds / 2, publishes: 0, rollbacks: 0 }
  const { streams, moves, mixed } = await moving(
    [
      { ...constant, seconds: seconds / 6 },
      constant,
      { seconds, publishes: quick ? 4 : 20, rollbacks: quick ? 1 : 5 },
      constant,
    ],
    logLine,
  )
  const complete = streams.filter(({ fault }) => fault === null)
  const startedIn = (...stretches: number[]): Stream[] => complete.filter(({ stretch }) => stretches.includes(stretch))
  const rows = (
    [
      ['weights constant', startedIn(1, 3)],
      ['weights changing', startedIn(2)],
    ] as const
  ).flatMap(([condition, group]) => [
    rowOf(
      `first token, ms, ${condition}`,
      group.map(({ firstMs }) => firstMs),
    ),
    rowOf(
      `whole answer, ms per token, ${condition}`,
      group.filter(({ tokens }) => tokens > 0).map(({ allMs, tokens }) => allMs / tokens),
    ),
    rowOf(
      `whole answer, ms, ${condition}`,
      group.map(({ allMs }) => allMs),
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
    failed: streams.length - complete.length,
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
    logLine: (line) => {
      console.error(line)
    },
  })
  console.log(report)
  console.table(rows)
}
