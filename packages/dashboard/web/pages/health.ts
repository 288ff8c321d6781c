/** Whether everything works, and what to do if it does not: what doctor finds, and what is pushed. */
import { useEffect } from 'preact/hooks'
import { useData } from '../api.ts'
import { count, duration, time } from '../format.ts'
import { html, type View } from '../html.ts'
import { gauge, gaugeLabel, useLive, type Now } from '../live.ts'
import { ErrorHelp } from '../parts/error-help.ts'
import { Services } from '../parts/services.ts'
import { ErrorNote } from '../parts/state.ts'
import { Table } from '../parts/table.ts'
import { TrafficTable, type Memory } from '../parts/traffic.ts'
import type { CheckRow } from '../rows.ts'

type Checked = { at: string; checks: CheckRow[]; memory: Memory }

/** Time between two readings of the checks, in milliseconds. */
const AGAIN_MS = 30_000

const finding = (name: string, ok: boolean, found: string, todo: string, level: CheckRow['level'] = 'note'): CheckRow =>
  ok ? { name, level: 'ok', found, todo: null } : { name, level, found, todo }

/** From what is pushed. */
const pushed = (now: Now): CheckRow[] => {
  const probes = gauge(now, 'instar_gate_probes')
  const unreadable = now.log.unreadable + gauge(now, 'instar_log_dead_letters')
  const lag = now.lag.projections
  const replaced = gaugeLabel(now, 'instar_judge_replaced', 'why')
  const served = now.serving === now.head
  return [
    finding(
      'gateway',
      now.status === 'ready',
      `The gateway is ${now.status}`,
      'Its problem stands on the page Now.',
      'wrong',
    ),
    finding(
      'version',
      served,
      served ? `Version ${now.head}, the head, serves` : `Version ${now.serving} serves; the head is ${now.head}`,
      'It is being loaded. If that lasts, the engine’s log says why.',
    ),
    finding(
      'answers',
      now.log.failed === 0,
      `${count(now.log.failed)} answers lost since the start`,
      'The log did not accept them in time: see its disk or its brokers.',
      'wrong',
    ),
    finding('records', unreadable === 0, `${count(unreadable)} unreadable records`, '`instar log dead` lists them.'),
    finding(
      'read model',
      lag !== null && lag < 10,
      lag === null
        ? 'How far the read model is behind is not known'
        : lag < 1
          ? 'The read model is up to date'
          : `The read model is ${duration(1000 * lag)} behind`,
      'It catches up by itself; `docs/operate.md` says what slows it.',
    ),
    finding(
      'learning',
      !now.frozen,
      now.frozen ? 'Learning is frozen' : 'Learning is on',
      'Resume it on the page Versions, or with `instar thaw`.',
    ),
    finding(
      'updates',
      now.rejections_in_a_row < 3,
      `${count(now.rejections_in_a_row)} updates rejected in a row`,
      'The page Versions lists the reasons; limits are settings (docs/settings.md).',
    ),
    finding(
      'gate',
      probes === 0 || probes >= 32,
      probes === 0
        ? 'The number of probes is known to the publisher’s process'
        : `The gate has ${count(probes)} questions (probes) that the base model answers`,
      'With fewer than 32 it hardly notices what the model forgets: give it probes of your own (docs/learning.md).',
    ),
    finding(
      'judge',
      replaced === null,
      replaced ? `The judge was replaced by the reactions judge: ${replaced}` : 'The judge works',
      'It is asked again by itself once it answers.',
    ),
  ]
}

const LEVELS: Readonly<Record<CheckRow['level'], { text: string; look: string }>> = {
  wrong: { text: '✕ wrong', look: 'bad' },
  note: { text: '! look', look: 'bad' },
  unsure: { text: '? unsure', look: '' },
  ok: { text: '✓ well', look: 'good' },
}
const ORDER = Object.keys(LEVELS)

const Checks = ({ rows }: { rows: readonly CheckRow[] }): View => html`
  <${Table} caption="Checks" rows=${rows} columns=${[
    {
      name: 'State',
      of: ({ level }: CheckRow) => html`<span class=${LEVELS[level].look}>${LEVELS[level].text}</span>`,
    },
    { name: 'Check', of: ({ name }: CheckRow) => name },
    { name: 'Found', of: ({ found }: CheckRow) => found },
    { name: 'What to do', of: ({ todo }: CheckRow) => todo ?? '' },
  ]} />
`

export const HealthPage = (): View => {
  const { now } = useLive()
  const checked = useData<Checked>('health')
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') checked.reload()
    }, AGAIN_MS)
    return () => clearInterval(timer)
  }, [])
  if (!now) return html`<h1>Health</h1><p class="note quiet" aria-busy="true">Waiting for the gateway…</p>`
  const all = [...(checked.data?.checks ?? []), ...pushed(now)].toSorted(
    (a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level),
  )
  const bad = all.filter(({ level }) => level === 'wrong' || level === 'note')
  return html`
    <div class="row"><h1>Health</h1><span class="grow"></span>
      <button onClick=${checked.reload}>Check again</button></div>
    <p class=${bad.length > 0 ? 'note error' : 'note'} role="status">
      ${bad.length === 0 ? 'Everything works.' : `${bad.length} of ${all.length} checks need attention.`}
    </p>
    ${checked.error ? html`<${ErrorNote} error=${checked.error} retry=${checked.reload} />` : null}
    <${Checks} rows=${all} />
    <p class="quiet" aria-busy=${checked.data || checked.error ? undefined : 'true'}>
      ${checked.data ? `Checked at ${time(checked.data.at)}.` : ''}
      ${' '}<code>npx instar doctor</code> checks more: every record of the log, the model’s files, Kafka.
    </p>
    <h2>Traffic and memory</h2>
    <${TrafficTable} now=${now} checked=${checked.data?.at ?? null} memory=${checked.data?.memory ?? null} />
    <h2>Services</h2>
    <${Services} now=${now} />
    <h2>Errors to clients since the start</h2>
    <${ErrorHelp} errors=${(now.gauges['instar_request_errors_total'] ?? []).map(({ labels, value }) => ({
      code: labels['code'] ?? '',
      count: value,
    }))} />
  `
}
