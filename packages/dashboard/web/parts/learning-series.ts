/** What the charts of the page Learning draw, from its rows. */
import type { Learning, VersionRow } from '../rows.ts'
import type { Point, Series } from './chart.ts'
import { lineageEvents, type LineageEvent } from './lineage-events.ts'
import type { Mark } from './plot.ts'
import { served } from './served.ts'
import type { Share } from './shares.ts'

const MARKED: ReadonlySet<LineageEvent['kind']> = new Set([
  'rollback',
  'promotion',
  'rejected',
  'refused',
  'freeze',
  'thaw',
])

const marksOf = (events: readonly LineageEvent[], x: (event: LineageEvent) => number): Mark[] =>
  events.flatMap((event) =>
    MARKED.has(event.kind)
      ? {
          x: x(event),
          kind: event.kind === 'refused' ? 'rejected' : (event.kind as Mark['kind']),
          label: event.why === null ? event.said : `${event.said}: ${event.why}`,
        }
      : [],
  )

const sum = (parts: Readonly<Record<string, number>>): number => Object.values(parts).reduce((all, one) => all + one, 0)

/** Everything that the charts draw. */
export const drawn = (all: Learning) => {
  const rows = all.versions.toSorted((a, b) => a.version - b.version)
  const byVersion = (...series: [name: string, of: (row: VersionRow) => number | null][]): Series[] =>
    series.map(([name, of]) => ({ name, points: rows.map((row): Point => ({ x: row.version, y: of(row) })) }))
  const at = (row: { at: string }): number => Date.parse(row.at)
  const byTime = (...series: [name: string, of: (row: Learning['times'][number]) => number | null][]): Series[] =>
    series.map(([name, of]) => ({ name, points: all.times.map((row): Point => ({ x: at(row), y: of(row) })) }))
  const events = lineageEvents(all)
  const [begin, end] = [all.times[0], all.times.at(-1)]
  const from = begin ? at(begin) : Infinity
  const heads = begin && end ? served(all, from, at(end) + 1_000 * all.step) : []
  const whileServed = (...series: [name: string, of: (row: VersionRow) => number | null][]): Series[] =>
    series.map(([name, of]) => ({ name, points: heads.map((head): Point => ({ x: head.at, y: of(head.row) })) }))
  return {
    events: events.filter(({ kind }) => MARKED.has(kind)),
    versionMarks: marksOf(events, ({ version }) => version),
    timeMarks: marksOf(events, at).filter(({ x }) => x >= from),
    reward: [
      {
        name: 'reward',
        points: rows.map((row) => ({ x: row.version, y: row.reward, low: row.reward_low, high: row.reward_high })),
      },
    ],
    probes: byVersion(['content', (row) => row.content]),
    divergence: byVersion(['to the parent', (row) => row.kl_parent], ['to the base', (row) => row.kl_base]),
    length: byVersion(['samples', (row) => row.sampled_length], ['answers', (row) => row.completion_tokens]),
    entropy: byVersion(['entropy', (row) => row.entropy]),
    norm: byVersion(['norm', (row) => row.grad_norm]),
    versionSkips: all.by_version
      .filter(({ version }) => version >= 0)
      .map((row): Share => ({ x: row.version, of: row.scored + row.skipped, parts: row.reasons })),
    versionDrops: all.by_version
      .filter(({ version }) => version >= 0)
      .map((row): Share => ({ x: row.version, of: row.used + sum(row.dropped), parts: row.dropped })),
    timeReward: byTime(['reward', (row) => row.reward]),
    timeProbes: whileServed(['content', (row) => row.content]),
    timeDivergence: whileServed(['to the parent', (row) => row.kl_parent], ['to the base', (row) => row.kl_base]),
    timeLength: whileServed(['samples', (row) => row.sampled_length], ['answers', (row) => row.completion_tokens]),
    timeEntropy: whileServed(['entropy', (row) => row.entropy]),
    timeNorm: [
      {
        name: 'norm',
        points: rows
          .map((row): Point => ({ x: Date.parse(row.published_at), y: row.grad_norm }))
          .filter(({ x }) => x >= from),
      },
    ],
    timeScores: byTime(['scored', (row) => row.scored], ['without a score', (row) => row.skipped]),
    timeHints: byTime(['with a hint', (row) => (row.scored === 0 ? null : row.hinted / row.scored)]),
    timeRewards: all.times.map((row): Share => ({
      x: at(row),
      of: row.scored,
      parts: Object.fromEntries(row.rewards.map((n, i) => [i, n])),
    })),
    timeJudges: all.times.map((row): Share => ({ x: at(row), of: row.scored, parts: row.judges })),
    timeSkips: all.times.map((row): Share => ({ x: at(row), of: row.scored + row.skipped, parts: row.reasons })),
    timeDrops: all.times.map((row): Share => ({ x: at(row), of: row.used + sum(row.dropped), parts: row.dropped })),
  }
}
