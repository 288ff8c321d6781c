/** Whether everything works, and what to do if it does not. */
import { useContext } from 'preact/hooks'
import { count, duration } from '../format.ts'
import { html, type View } from '../html.ts'
import { gauge, gaugeLabel, useLive, type Now } from '../live.ts'
import { Table } from '../parts/table.ts'
import { waits } from '../reasons.ts'
import { SessionContext } from '../session-context.ts'
import { ErrorHelp } from '../parts/error-help.ts'

type Finding = { ok: boolean; what: string; todo: string }

const findings = (now: Now, database: boolean): Finding[] => {
  const lag = Math.max(0, ...(now.gauges['instar_projections_lag_seconds'] ?? []).map(({ value }) => value))
  const probes = gauge(now, 'instar_gate_probes')
  const letters = gauge(now, 'instar_log_dead_letters')
  const replaced = gaugeLabel(now, 'instar_judge_replaced', 'why')
  return [
    {
      ok: now.status === 'ready',
      what: `The gateway is ${now.status}`,
      todo: 'Its problem stands on the page Now; `instar doctor` checks every part.',
    },
    {
      ok: now.serving === now.head,
      what:
        now.serving === now.head
          ? `Version ${now.head}, the head, serves`
          : `Version ${now.serving} serves; the head is ${now.head}`,
      todo: 'It is being loaded. If that lasts, the engine’s log says why.',
    },
    {
      ok: now.log.failed === 0,
      what: `${count(now.log.failed)} answers lost since the start`,
      todo: 'The log did not accept them in time: see its disk or its brokers.',
    },
    {
      ok: now.log.unreadable === 0 && letters === 0,
      what: `${count(now.log.unreadable + letters)} unreadable records`,
      todo: '`instar log dead` lists them.',
    },
    {
      ok: database,
      what: database ? 'The read model answers' : 'There is no read model',
      todo: 'Without PostgreSQL, or DATABASE_URL at the gateway, there is no history here.',
    },
    {
      ok: lag < 10,
      what: lag < 1 ? 'The read model is up to date' : `The read model is ${duration(1000 * lag)} behind`,
      todo: 'It catches up by itself; `docs/operate.md` says what slows it.',
    },
    {
      ok: !now.frozen,
      what: now.frozen ? 'Learning is frozen' : 'Learning is on',
      todo: 'Resume it on the page Versions, or with `instar thaw`.',
    },
    {
      ok: now.rejections_in_a_row < 3,
      what: `${count(now.rejections_in_a_row)} updates rejected in a row`,
      todo: 'The page Versions lists the reasons; limits are settings (docs/settings.md).',
    },
    {
      ok: probes === 0 || probes >= 32,
      what:
        probes === 0
          ? 'The number of probes is known to the publisher’s process'
          : `The gate has ${count(probes)} probes`,
      todo: 'With fewer than 32 it hardly notices what the model forgets: give it probes of your own (docs/learning.md).',
    },
    {
      ok: replaced === null,
      what: replaced ? `The judge was replaced by the reactions judge: ${replaced}` : 'The judge works',
      todo: 'It is asked again by itself once it answers.',
    },
  ]
}

export const HealthPage = (): View => {
  const { now } = useLive()
  const session = useContext(SessionContext)
  if (!now) return html`<h1>Health</h1><p class="note quiet" aria-busy="true">Waiting for the gateway…</p>`
  const all = findings(now, session?.database ?? false)
  const bad = all.filter(({ ok }) => !ok)
  const services = [
    ['Trainer', waits(gaugeLabel(now, 'instar_trainer_waits', 'for'))],
    ['Publisher', waits(gaugeLabel(now, 'instar_publisher_waits', 'for'))],
    [
      'Scorer',
      `${count(gauge(now, 'instar_scorer_judging'))} judging, ${count(gauge(now, 'instar_scorer_waiting'))} queued`,
    ],
  ] as const
  return html`
    <h1>Health</h1>
    <p class=${bad.length > 0 ? 'note error' : 'note'} role="status">${bad.length === 0 ? 'Everything works.' : `${bad.length} of ${all.length} checks need attention.`}</p>
    <${Table} caption="Checks" rows=${[...bad, ...all.filter(({ ok }) => ok)]} columns=${[
      {
        name: 'State',
        of: (row: Finding) => html`<span class=${row.ok ? 'good' : 'bad'}>${row.ok ? '✓ well' : '! look'}</span>`,
      },
      { name: 'What', of: (row: Finding) => row.what },
      { name: 'What to do', of: (row: Finding) => (row.ok ? '' : row.todo) },
    ]} />
    <h2>Services</h2>
    <${Table} caption="Services" rows=${services} columns=${[
      { name: 'Service', of: ([name]: readonly [string, string]) => name },
      { name: 'Now', of: ([, what]: readonly [string, string]) => what },
    ]} />
    <h2>Errors to clients since the start</h2>
    <${ErrorHelp} errors=${(now.gauges['instar_request_errors_total'] ?? []).map(({ labels, value }) => ({ code: labels['code'] ?? '', count: value }))} />
    <p class="quiet">${now.engine.fingerprint}</p>
  `
}
