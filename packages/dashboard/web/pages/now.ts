/** What the pipeline does at this moment. */
import { useContext } from 'preact/hooks'
import { useData } from '../api.ts'
import { ago, count, duration, percent, plainName } from '../format.ts'
import { html, type Children, type View } from '../html.ts'
import { gauge, gaugeLabel, knownGauge, pause, resume, useLive, type Now } from '../live.ts'
import { eventText, lineageEvents, type Events, type LineageEvent } from '../parts/lineage-events.ts'
import { judgeState, Services } from '../parts/services.ts'
import { Table } from '../parts/table.ts'
import { untrained, waits } from '../reasons.ts'
import { SessionContext } from '../session-context.ts'
import { judgeWords } from '../session-words.ts'
import { Connect } from './connect.ts'

type CardProps = { title: string; about: string; value: Children; children?: Children }

const Card = ({ title, about, value, children }: CardProps): View => html`
  <section class="card"><h2>${title}</h2><p class="quiet">${about}</p><p class="value">${value}</p>
    <div class="quiet">${children}</div></section>
`

const Update = ({ now }: { now: Now }): View => {
  const share = gauge(now, 'instar_update_progress')
  const left = gauge(now, 'instar_update_remaining_seconds')
  const waiting = gaugeLabel(now, 'instar_trainer_waits', 'for')
  const pending = knownGauge(now, 'instar_turns_pending')
  const needed = knownGauge(now, 'instar_turns_needed')
  return html`
    <${Card} title="Learning" about="Trains the model on scored turns, one batch at a time."
      value=${now.frozen ? 'Frozen' : share > 0 ? `Update ${percent(share)}` : waits(waiting)}>
      ${
        share > 0
          ? html`<progress value=${share} max="1"
        aria-label="Part of the update that is done"></progress><p>About ${duration(1000 * left)} left</p>`
          : null
      }
      ${pending === null ? null : html`<p>${count(pending)} scored turns wait for a batch</p>`}
      ${
        needed === null
          ? null
          : needed > 0
            ? html`<p>The next batch still needs ${count(needed)} usable turns</p>`
            : html`<p>There are enough turns for the next batch</p>`
      }
      ${now.frozen ? html`<p><a href="#/versions">Resume learning</a></p>` : null}
      ${
        now.rejections_in_a_row >= 3
          ? html`<p class="bad">The gate rejected the
        last ${now.rejections_in_a_row} updates: <a href="#/versions">see why</a></p>`
          : null
      }
    <//>
  `
}

type Lately = Events & { judge: string | null }

const Cards = ({ now, judgedBy }: { now: Now; judgedBy: string | null }): View => {
  const judge = judgeState(now)
  const unscored = knownGauge(now, 'instar_turns_unscored')
  const probes = knownGauge(now, 'instar_gate_probes')
  const unreadable = now.log.unreadable + gauge(now, 'instar_log_dead_letters')
  return html`<div class="cards">
    <${Card} title="Serving" about="The version of the model that answers requests." value=${html`Version ${
      now.serving === null ? 'none' : html`<a href=${`#/versions/${now.serving}`}>${now.serving}</a>`
    }`}>
      ${now.serving !== now.head ? html`<p>The newest, version ${now.head}, is being loaded</p>` : null}
      <p>${now.model.name}, on the engine ${now.engine.name}</p>
      <p>${count(now.requests.running)} requests running</p>
    <//>
    <${Update} now=${now} />
    <${Card} title="Gate" about="Tests each update before it may serve."
      value=${waits(gaugeLabel(now, 'instar_publisher_waits', 'for'))}>
      ${
        probes === null
          ? null
          : html`<p>${count(probes)} test questions (probes) that each update must still answer</p>`
      }
      ${
        now.rejections_in_a_row > 0
          ? html`<p>${now.rejections_in_a_row} updates rejected in a row</p>`
          : html`<p>No rejection since the last version</p>`
      }
    <//>
    <${Card} title="Judge" about="Scores an answer by what follows it: the next message, a thumb, a tool’s result."
      value=${html`<span class=${judge.bad ? 'bad' : ''}>${judge.text}</span>`}>
      ${judgedBy === null ? null : html`<p>The last answer was scored by ${plainName(judgeWords(judgedBy).name)}</p>`}
      ${
        unscored === null
          ? null
          : html`<p>${count(unscored)} turns wait for a score</p>
        <p>${count(gauge(now, 'instar_scores_total'))} scores since the start</p>`
      }
    <//>
    <${Card} title="Conversations" about="What people and agents said, and the answers."
      value=${count(now.index.sessions)}>
      <p>with ${count(now.index.turns)} turns, the newest that the gateway has at hand</p>
      <p><a href="#/sessions">All conversations</a></p>
    <//>
    <${Card} title="Log" about="Every turn, score and update is written here first."
      value=${
        now.log.failed > 0 ? html`<span class="bad">${count(now.log.failed)} answers lost</span>` : 'Nothing lost'
      }>
      <p class=${unreadable > 0 ? 'bad' : ''}>${count(unreadable)} records that cannot be read (dead letters)</p>
    <//>
  </div>`
}

const sum = (now: Now, name: string): { name: string; count: number }[] =>
  (now.gauges[name] ?? [])
    .map(({ labels, value }) => ({ name: labels['reason'] ?? labels['code'] ?? labels['topic'] ?? '', count: value }))
    .toSorted((a, b) => b.count - a.count)

const Recent = ({ lately }: { lately: Lately | null }): View => {
  const events = lately ? lineageEvents(lately).slice(0, 8) : []
  return html`
    <section class="card wide lately"><h2>Lately</h2>
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

const problemOf = ({ problem }: Now): string =>
  problem ? `: ${typeof problem === 'string' ? problem : (problem.message ?? '')}` : ''

export const NowPage = (): View => {
  const { now, state } = useLive()
  const session = useContext(SessionContext)
  const { data: lately } = useData<Lately>('lately')
  if (!now) return html`<h1>Now</h1><p class="note quiet" aria-busy="true">Waiting for the gateway…</p>`
  if (now.index.turns === 0 && now.last_version === 0) return html`<${Connect} model=${now.policy} />`
  const errors = sum(now, 'instar_request_errors_total')
  return html`
    <div class="row"><h1>Now</h1><span class="grow"></span>
      ${
        state === 'paused'
          ? html`<button onClick=${resume}>Go on</button>`
          : html`<button onClick=${pause}>Pause</button>`
      }</div>
    ${
      now.status !== 'ready'
        ? html`<p class="note error" role="alert">The gateway is ${now.status}${problemOf(now)}</p>`
        : null
    }
    <${Cards} now=${now} judgedBy=${lately?.judge ?? null} />
    <section><h2>Services</h2><${Services} now=${now} /></section>
    <${Recent} lately=${lately} />
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
