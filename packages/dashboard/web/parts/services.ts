/** What each service does, how far it is behind, and what waits for it. */
import { count, duration } from '../format.ts'
import { html, type View } from '../html.ts'
import { gauge, gaugeLabel, knownGauge, type Now } from '../live.ts'
import { waits } from '../reasons.ts'
import { Table } from './table.ts'

type ServiceRow = { name: string; task: string; now: string; lag: number | null; waiting: string }

/** Records are normally read within a second. */
const LATE_S = 2

const UNKNOWN = 'unknown'
const counted = (value: number | null, what: string): string => (value === null ? UNKNOWN : `${count(value)} ${what}`)

const rowsOf = (now: Now): ServiceRow[] => {
  const judging = knownGauge(now, 'instar_scorer_judging')
  return [
    {
      name: 'Gateway',
      task: 'answers requests',
      now: `${count(now.requests.running)} requests running`,
      lag: now.lag.gateway,
      waiting: `${count(now.log.pending)} answers to be written`,
    },
    {
      name: 'Scorer',
      task: 'lets the judge score answers',
      now: judging === null ? UNKNOWN : judging > 0 ? `Judging ${count(judging)} turns` : 'Waiting for turns',
      lag: now.lag.scorer,
      waiting: counted(knownGauge(now, 'instar_turns_unscored'), 'turns without a score'),
    },
    {
      name: 'Trainer',
      task: 'computes updates',
      now: waits(gaugeLabel(now, 'instar_trainer_waits', 'for')),
      lag: now.lag.trainer,
      waiting: counted(knownGauge(now, 'instar_turns_pending'), 'scored turns'),
    },
    {
      name: 'Publisher',
      task: 'is the gate: tests updates',
      now: waits(gaugeLabel(now, 'instar_publisher_waits', 'for')),
      lag: now.lag.publisher,
      waiting: gaugeLabel(now, 'instar_trainer_waits', 'for') === 'verdict' ? '1 update' : '',
    },
    {
      name: 'Projections',
      task: 'fill PostgreSQL, from which these pages read history',
      now:
        now.lag.projections === null ? UNKNOWN : now.lag.projections < LATE_S ? 'Waiting for records' : 'Catching up',
      lag: now.lag.projections,
      waiting: '',
    },
  ]
}

const lagText = (lag: number | null): View =>
  lag === null
    ? html`<span class="quiet" title="It runs in another process that has told no position; its /metrics has the lag">
        ${UNKNOWN}</span>`
    : lag < LATE_S
      ? html`<span class="good">up to date</span>`
      : html`<span class="bad">${duration(1000 * lag)} behind</span>`

export const Services = ({ now }: { now: Now }): View => html`
  <${Table} caption="Services" rows=${rowsOf(now)} columns=${[
    {
      name: 'Service',
      of: ({ name, task }: ServiceRow) => html`<strong>${name}</strong> <span class="quiet">${task}</span>`,
    },
    { name: 'Does now', of: (row: ServiceRow) => row.now },
    { name: 'Reading the log', of: ({ lag }: ServiceRow) => lagText(lag) },
    { name: 'Waits for it', of: ({ waiting }: ServiceRow) => waiting },
  ]} />
`

/** The state of the judge in words; `bad`: it needs attention. */
export const judgeState = (now: Now): { text: string; bad: boolean } => {
  const replaced = gaugeLabel(now, 'instar_judge_replaced', 'why')
  if (replaced !== null)
    return {
      text: `Replaced by the reactions judge: it ${
        replaced === 'drifted' ? 'disagrees with what people say' : replaced
      }`,
      bad: true,
    }
  const judging = knownGauge(now, 'instar_scorer_judging')
  if (judging === null) return { text: 'Unknown: in another process', bad: false }
  return { text: gauge(now, 'instar_scorer_waiting') > 0 ? 'Busy' : judging > 0 ? 'At work' : 'Idle', bad: false }
}
