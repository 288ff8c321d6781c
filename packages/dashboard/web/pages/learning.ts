/** Curves of learning, by version and by time, and what the judges do. */
import { useData } from '../api.ts'
import { count, number, percent, reward, shortId } from '../format.ts'
import { html, type View } from '../html.ts'
import { Chart, type Mark, type Point } from '../parts/chart.ts'
import { Await } from '../parts/state.ts'
import { Table } from '../parts/table.ts'
import { untrained } from '../reasons.ts'
import type { CountRow, Lineage, TimeRow, VersionRow } from '../rows.ts'

type Learning = Lineage & {
  hours: TimeRow[]
  days: TimeRow[]
  judges: CountRow[]
  reasons: CountRow[]
  subjects: CountRow[]
  dropped: CountRow[]
  rewards: CountRow[]
}

const byVersion = (rows: readonly VersionRow[], of: (row: VersionRow) => number | null): Point[] =>
  rows.map((row) => ({ x: row.version, y: of(row) }))

const marksOf = ({ moves, updates }: Lineage): Mark[] => [
  ...moves
    .filter(({ why, from_version }) => from_version !== null && why !== 'update' && why !== 'promotion')
    .map(({ from_version, to_version, who }) => ({
      x: from_version!,
      label: `${who} moved the head to version ${to_version}`,
      kind: 'move' as const,
    })),
  ...updates
    .filter(({ status }) => status === 'rejected')
    .map(({ parent_version, number: update, reason }) => ({
      x: parent_version,
      label: `Update ${update} rejected: ${reason ?? ''}`,
      kind: 'reject' as const,
    })),
]

const version = (x: number): string => `v${x}`

const Counts = ({
  title,
  rows,
  name,
  withReward = false,
}: {
  title: string
  rows: readonly CountRow[]
  name: (row: CountRow) => unknown
  withReward?: boolean
}): View => {
  const all = rows.reduce((sum, row) => sum + row.count, 0)
  return html`<section class="card"><h2>${title}</h2><${Table} caption=${title} rows=${rows} columns=${[
    { name: 'What', of: name },
    { name: 'Turns', numeric: true, of: (row: CountRow) => count(row.count) },
    { name: 'Share', numeric: true, of: (row: CountRow) => percent(row.count / all) },
    ...(withReward ? [{ name: 'Mean reward', numeric: true, of: (row: CountRow) => reward(row.reward) }] : []),
  ]} /></section>`
}

export const LearningPage = (): View => {
  const learning = useData<Learning>('learning')
  return html`
    <div class="row"><h1>Learning</h1><span class="grow"></span><button
      onClick=${learning.reload}>Refresh</button></div>
    <${Await} from=${learning} of=${(all: Learning) => {
      const rows = all.versions.toSorted((a, b) => a.version - b.version)
      const marks = marksOf(all)
      const times = (all.days.length > 8 ? all.days : all.hours).toReversed()
      const hour = (x: number): string =>
        new Date(x).toLocaleString('sv-SE', { dateStyle: 'short', timeStyle: 'short' })
      const chart = { marks, xText: version, xName: 'Version' }
      return html`
        <div class="charts">
          <${Chart} ...${chart} title="Reward" about="Mean score of each version’s answers, with its 95 % interval."
            yText=${(y: number) => reward(y)}
              series=${[{ name: 'reward', points: rows.map((row) => ({ x: row.version, y: row.reward, low: row.reward_low, high: row.reward_high })) }]} />
          <${Chart} ...${chart} title="Probes" about="Share of the gate’s questions that the version answers."
            yText=${(y: number) => number(y, 3)}
              series=${[{ name: 'content', points: byVersion(rows, (row) => row.content) }]} />
          <${Chart} ...${chart} title="Divergence" about="KL in nats per token, on the gate’s samples."
            yText=${(y: number) => number(y, 3)} series=${[
              { name: 'to the parent', points: byVersion(rows, (row) => row.kl_parent) },
              { name: 'to the base', points: byVersion(rows, (row) => row.kl_base) },
            ]} />
          <${Chart} ...${chart} title="Length" about="Mean tokens: of the gate’s samples, and of answers to people."
            yText=${(y: number) => number(y, 1)} series=${[
              { name: 'samples', points: byVersion(rows, (row) => row.sampled_length) },
              { name: 'answers', points: byVersion(rows, (row) => row.completion_tokens) },
            ]} />
          <${Chart} ...${chart} title="Entropy"
            about="Nats per token of the gate’s samples: near 0, the model always says the same."
              yText=${(y: number) => number(y, 2)}
                series=${[{ name: 'entropy', points: byVersion(rows, (row) => row.entropy) }]} />
          <${Chart} ...${chart} title="Gradient norm" about="Of the update that made the version."
            yText=${(y: number) => number(y, 2)}
              series=${[{ name: 'norm', points: byVersion(rows, (row) => row.grad_norm) }]} />
          <${Chart} title="Reward over time" about="Mean of all scores in each hour or day." marks=${[]} xText=${hour}
            xName="Time" yText=${(y: number) => reward(y)}
              series=${[{ name: 'reward', points: times.map((row) => ({ x: Date.parse(row.at), y: row.reward })) }]} />
          <${Chart} title="Scores over time" about="Turns scored, and skipped without a score." marks=${[]}
            xText=${hour} xName="Time" yText=${(y: number) => number(y, 0)} series=${[
              { name: 'scored', points: times.map((row) => ({ x: Date.parse(row.at), y: row.scored })) },
              { name: 'skipped', points: times.map((row) => ({ x: Date.parse(row.at), y: row.skipped })) },
            ]} />
        </div>
        <div class="cards">
          <${Counts} title="Judges" rows=${all.judges} name=${(row: CountRow) => row.name} withReward=${true} />
          <${Counts} title="Rewards" rows=${all.rewards} name=${(row: CountRow) => reward(Number(row.name))} />
          <${Counts} title="Skipped by the scorer" rows=${all.reasons} name=${(row: CountRow) => untrained(row.name)} />
          <${Counts} title="Dropped by a batch" rows=${all.dropped} name=${(row: CountRow) => untrained(row.name)} />
          <${Counts} title="People" rows=${all.subjects} withReward=${true} name=${(row: CountRow) => html`<a
            href=${`#/sessions?subject=${encodeURIComponent(row.name)}`}><code>${shortId(row.name)}</code></a>`} />
        </div>
      `
    }} />
  `
}
