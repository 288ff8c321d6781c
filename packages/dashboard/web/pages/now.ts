/** What the pipeline does at this moment. */
import { useContext } from 'preact/hooks'
import { useData } from '../api.ts'
import { ago, count, duration, percent } from '../format.ts'
import { html, type Children, type View } from '../html.ts'
import { gauge, gaugeLabel, pause, resume, useLive, type Now } from '../live.ts'
import { eventText, lineageEvents, type LineageEvent } from '../parts/lineage-events.ts'
import { Table } from '../parts/table.ts'
import { untrained, waits } from '../reasons.ts'
import type { Lineage } from '../rows.ts'
import { SessionContext } from '../session-context.ts'
import { Connect } from './connect.ts'

const Card = ({ title, value, children }: { title: string; value: Children; children?: Children }): View => html`
  <section class="card"><h2>${title}</h2><p class="value">${value}</p><div class="quiet">${children}</div></section>
`

const Update = ({ now }: { now: Now }): View => {
  const share = gauge(now, 'instar_update_progress')
  const left = gauge(now, 'instar_update_remaining_seconds')
  const waiting = gaugeLabel(now, 'instar_trainer_waits', 'for')
  const pending = gauge(now, 'instar_turns_pending')
  return html`
    <${Card} title="Learning" value=${now.frozen ? 'Frozen' : share > 0 ? `Update ${percent(share)}` : waits(waiting)}>
      ${
        share > 0
          ? html`<progress value=${share} max="1"
        aria-label="Part of the update that is done"></progress><p>About ${duration(1000 * left)} left</p>`
          : null
      }
      <p>${count(pending)} scored turns wait for a batch</p>
      ${
        now.rejections_in_a_row >= 3
          ? html`<p class="bad">The gate rejected the
        last ${now.rejections_in_a_row} updates: <a href="#/versions">see why</a></p>`
          : null
      }
    <//>
  `
}

const sum = (now: Now, name: string): { name: string; count: number }[] =>
  (now.gauges[name] ?? [])
    .map(({ labels, value }) => ({ name: labels['reason'] ?? labels['code'] ?? labels['topic'] ?? '', count: value }))
    .toSorted((a, b) => b.count - a.count)

const Recent = (): View => {
  const lineage = useData<Events>('lately')
  const events = lineage.data ? lineageEvents(lineage.data).slice(0, 8) : []
  return html`
    <section class="card wide"><h2>Lately</h2>
      <${Table} caption="What happened lately" rows=${events} empty="Nothing has been learned yet." columns=${[
        {
          name: 'When',
          of: (event: LineageEvent) => html`<span title=${event.at}>${ago(event.at, Date.now())}</span>`,
        },
        { name: 'What', of: eventText },
      ]} />
    </section>
  `
}

type Events = Pick<Lineage, 'updates' | 'moves' | 'freezes'>

export const NowPage = (): View => {
  const { now, state } = useLive()
  const session = useContext(SessionContext)
  if (!now) return html`<h1>Now</h1><p class="note quiet" aria-busy="true">Waiting for the gateway…</p>`
  if (now.index.turns === 0 && now.last_version === 0) return html`<${Connect} model=${now.policy} />`
  const replaced = gaugeLabel(now, 'instar_judge_replaced', 'why')
  const unscored = gauge(now, 'instar_turns_unscored')
  const errors = sum(now, 'instar_request_errors_total')
  const letters = gauge(now, 'instar_log_dead_letters')
  const lag = Math.max(0, ...(now.gauges['instar_projections_lag_seconds'] ?? []).map(({ value }) => value))
  return html`
    <div class="row"><h1>Now</h1><span class="grow"></span>
      ${
        state === 'paused'
          ? html`<button onClick=${resume}>Go on</button>`
          : html`<button onClick=${pause}>Pause</button>`
      }</div>
    ${
      now.status !== 'ready'
        ? html`<p class="note error" role="alert">The gateway
      is ${now.status}${now.problem ? `: ${typeof now.problem === 'string' ? now.problem : (now.problem.message ?? '')}` : ''}</p>`
        : null
    }
    <div class="cards">
      <${Card} title="Serving" value=${html`Version ${
        now.serving === null ? 'none' : html`<a href=${`#/versions/${now.serving}`}>${now.serving}</a>`
      }`}>
        ${now.serving !== now.head ? html`<p>The head is version ${now.head}, which is being loaded</p>` : null}
        <p>${now.model.name}, ${now.engine.name}</p><p>${count(now.requests.running)} requests running</p>
      <//>
      <${Update} now=${now} />
      <${Card} title="Gate" value=${waits(gaugeLabel(now, 'instar_publisher_waits', 'for'))}>
        <p>${count(gauge(now, 'instar_gate_probes'))} questions (probes) test each update</p>
        ${
          now.rejections_in_a_row > 0
            ? html`<p>${now.rejections_in_a_row} rejected in a row</p>`
            : html`<p>No rejection since the last version</p>`
        }
      <//>
      <${Card} title="Judge" value=${replaced ? `Replaced: ${replaced}` : `${count(gauge(now, 'instar_scorer_judging'))} at work`}>
        <p>${count(unscored)} turns without a score</p><p>${count(gauge(now, 'instar_scores_total'))} scores since the
          start</p>
      <//>
      <${Card} title="Conversations" value=${count(now.index.sessions)}><p>${count(now.index.turns)} turns in the
        gateway’s index</p><p><a href="#/sessions">All sessions</a></p><//>
      <${Card} title="Log" value=${now.log.failed > 0 ? `${count(now.log.failed)} answers lost` : 'Nothing lost'}>
        <p>${count(letters)} unreadable records</p><p>History
          (PostgreSQL) ${lag < 2 ? 'up to date' : `${duration(1000 * lag)} behind`}</p>
      <//>
    </div>
    <${Recent} />
    <div class="cards">
      <section class="card"><h2>Not trained on, since the start</h2>
        <${Table} caption="Reasons why turns were skipped or dropped" empty="Every turn was used."
          rows=${[...sum(now, 'instar_turns_skipped_total'), ...sum(now, 'instar_turns_dropped_total')]}
          columns=${[
            { name: 'Reason', of: (row: { name: string }) => untrained(row.name) },
            { name: 'Turns', numeric: true, of: (row: { count: number }) => count(row.count) },
          ]} />
      </section>
      <section class="card"><h2>Errors to clients, since the start</h2>
        <${Table} caption="Errors by code" empty="None." rows=${errors}
          columns=${[
            { name: 'Code', of: (row: { name: string }) => html`<code>${row.name}</code>` },
            { name: 'Times', numeric: true, of: (row: { count: number }) => count(row.count) },
          ]} />
        ${errors.length > 0 ? html`<p><a href="#/health">What to do about them</a></p>` : null}
      </section>
    </div>
    ${
      session?.may?.text
        ? null
        : html`<p class="quiet">Texts are hidden: they need an API key with the scope read, or a
      session of <code>instar open</code>.</p>`
    }
  `
}
