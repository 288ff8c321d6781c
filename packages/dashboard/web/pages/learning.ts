/**
 * Curves of learning by version and by time, with the events of the lineage on them; what the judges do; who is learned
 * from.
 */
import { useMemo } from 'preact/hooks'
import { useData } from '../api.ts'
import { count, duration, number, percent, reward } from '../format.ts'
import { html, type View } from '../html.ts'
import { CallerCurves } from '../parts/caller-curves.ts'
import { Callers } from '../parts/callers.ts'
import { Chart } from '../parts/chart.ts'
import { drawn } from '../parts/learning-series.ts'
import { eventText, type LineageEvent } from '../parts/lineage-events.ts'
import { Shares } from '../parts/shares.ts'
import { Await } from '../parts/state.ts'
import { Table } from '../parts/table.ts'
import { time } from '../format.ts'
import { untrained } from '../reasons.ts'
import type { JudgeRow, Learning } from '../rows.ts'

const REWARDS = ['0', '1', '2', '3', '4']
const rewardPart = (name: string): string => {
  const low = -1 + (2 / REWARDS.length) * Number(name)
  return `${number(low, 1, true)} to ${number(low + 2 / REWARDS.length, 1, true)}`
}
const reason = (name: string): string => (untrained(name) ?? name).replace(/\.$/, '')

const share = (y: number): string => `${number(100 * y, 1)} %`
const version = (x: number): string => `v${x}`
const two = (y: number): string => number(y, 2)
const three = (y: number): string => number(y, 3)
const WITHOUT = 'Share of turns that no judge scored, by reason.'
const DROPPED = 'Share of turns that a batch left out, by reason.'

const ByVersion = ({ of, all }: { of: ReturnType<typeof drawn>; all: Learning }): View => {
  const chart = { marks: of.versionMarks, xText: version, xName: 'Version' }
  return html`
    <h2>By version</h2>
    ${
      all.next === null
        ? null
        : html`<p class="quiet">The newest ${count(all.versions.length)} of ${count(
            all.versions[0]!.version + 1,
          )} versions.</p>`
    }
    <div class="charts">
      <${Chart} ...${chart} title="Reward" about="Mean score of each version’s answers, with its 95 % interval."
        yText=${reward} series=${of.reward} />
      <${Chart} ...${chart} title="Probes" about="Share of the gate’s test questions that the version answers."
        yText=${three} series=${of.probes} />
      <${Chart} ...${chart} title="Divergence" about="How far the answers have moved: KL in nats per token."
        yText=${three} series=${of.divergence} />
      <${Chart} ...${chart} title="Length" about="Mean tokens: of the gate’s samples, and of answers to people."
        yText=${(y: number) => number(y, 1)} series=${of.length} />
      <${Chart} ...${chart} title="Entropy"
        about="Nats per token of the gate’s samples: near 0, it always says the same."
        yText=${two} series=${of.entropy} />
      <${Chart} ...${chart} title="Gradient norm" about="Size of the update that made the version." yText=${two}
        series=${of.norm} />
      <${Shares} ...${chart} title="Without a score" about=${WITHOUT} shares=${of.versionSkips} nameText=${reason}
        fitted=${true} />
      <${Shares} ...${chart} title="Dropped" about=${DROPPED} shares=${of.versionDrops} nameText=${reason}
        fitted=${true} />
    </div>
  `
}

const ByTime = ({ of, all }: { of: ReturnType<typeof drawn>; all: Learning }): View => {
  const { step } = all
  const moment = (x: number): string => {
    const timeStyle = step < 60 ? 'medium' : 'short'
    return new Date(x).toLocaleString(
      'sv-SE',
      step >= 86_400 ? { dateStyle: 'short' } : { dateStyle: 'short', timeStyle },
    )
  }
  const chart = { marks: of.timeMarks, xText: moment, xName: 'Time' }
  const every = step >= 86_400 ? `${step / 86_400} d` : duration(1_000 * step).replace(/ 0 (s|min)$/, '')
  return html`
    <h2>By time</h2>
    <p class="quiet">One value for each ${every}, from the newest 100,000 scores and 1,000 batches. Figures of the gate
      are those of the version that served.</p>
    <div class="charts">
      <${Chart} ...${chart} title="Reward over time" about="Mean of the scores."
        yText=${reward} series=${of.timeReward} />
      <${Shares} ...${chart} title="Rewards over time" about="How the scores are spread from −1 to +1."
        shares=${of.timeRewards} names=${REWARDS} nameText=${rewardPart} ordered=${true} />
      <${Chart} ...${chart} title="Scores over time" about="Turns with a score, and without one."
        yText=${(y: number) => number(y, 0)} series=${of.timeScores} />
      <${Shares} ...${chart} title="Judges over time" about="Which judge gave the score." shares=${of.timeJudges}
        nameText=${(name: string) => name} />
      <${Chart} ...${chart} title="Hints over time"
        about="Share of scored turns with a hint: what would have been better."
        yText=${share} yTick=${share} series=${of.timeHints} />
      <${Shares} ...${chart} title="Without a score over time"
        about=${WITHOUT} shares=${of.timeSkips} nameText=${reason}
        fitted=${true} />
      <${Shares} ...${chart} title="Dropped over time" about=${DROPPED} shares=${of.timeDrops} nameText=${reason}
        fitted=${true} />
      <${Chart} ...${chart} title="Probes over time" about="Share of the gate’s test questions that it answers."
        yText=${three} series=${of.timeProbes} steps=${true} />
      <${Chart} ...${chart} title="Divergence over time" about="KL in nats per token." yText=${three}
        series=${of.timeDivergence} steps=${true} />
      <${Chart} ...${chart} title="Length over time" about="Mean tokens: of the gate’s samples, and of answers."
        yText=${(y: number) => number(y, 1)} series=${of.timeLength} steps=${true} />
      <${Chart} ...${chart} title="Entropy over time" about="Nats per token of the gate’s samples." yText=${two}
        series=${of.timeEntropy} steps=${true} />
      <${Chart} ...${chart} title="Gradient norm over time" about="Of each version when it was published."
        yText=${two} series=${of.timeNorm} />
      <${CallerCurves} by="subject" title="Reward of people" curves=${all.subject_curves}
        marks=${of.timeMarks} xText=${moment} />
      <${CallerCurves} by="key" title="Reward of API keys" curves=${all.key_curves}
        marks=${of.timeMarks} xText=${moment} />
    </div>
  `
}

const Events = ({ events }: { events: readonly LineageEvent[] }): View => html`
  <section class="card wide"><h2>Events on the curves</h2>
    <${Table} caption="Events on the curves" rows=${events}
      empty="No rollback, freeze, promotion or rejection yet." columns=${[
        { name: 'When', of: (event: LineageEvent) => html`<span title=${event.at}>${time(event.at)}</span>` },
        { name: 'What', of: eventText },
        { name: 'By', of: (event: LineageEvent) => event.who },
      ]} />
  </section>
`

const Judges = ({ rows }: { rows: readonly JudgeRow[] }): View => {
  const all = rows.reduce((total, row) => total + row.count, 0)
  return html`<section class="card wide"><h2>Judges</h2><${Table} caption="Judges" rows=${rows} columns=${[
    { name: 'Judge', of: (row: JudgeRow) => row.name },
    { name: 'Scores', numeric: true, of: (row: JudgeRow) => row.count.toLocaleString('en') },
    { name: 'Share', numeric: true, of: (row: JudgeRow) => percent(row.count / all) },
    { name: 'Mean reward', numeric: true, of: (row: JudgeRow) => reward(row.reward) },
  ]} /></section>`
}

/** Drawn again only with other data. */
const Whole = ({ all }: { all: Learning }): View =>
  useMemo(() => {
    const of = drawn(all)
    return html`
      <${ByVersion} of=${of} all=${all} />
      <${ByTime} of=${of} all=${all} />
      <div class="cards">
        <${Events} events=${of.events} />
        <${Judges} rows=${all.judges} />
        <${Callers} by="subject" title="People" first=${all.subjects}
          about="As the client names them (its user), or else by key or session; a name leads to their sessions." />
        <${Callers} by="key" title="API keys" first=${all.keys}
          about="By the public id of the key; the key itself is nowhere." />
      </div>
    `
  }, [all])

export const LearningPage = (): View => {
  const learning = useData<Learning>('learning')
  return html`
    <div class="row"><h1>Learning</h1><span class="grow"></span><button
      onClick=${learning.reload}>Refresh</button></div>
    <${Await} from=${learning} of=${(all: Learning) => html`<${Whole} all=${all} />`} />
  `
}
