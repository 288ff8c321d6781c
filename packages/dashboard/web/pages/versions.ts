/** The lineage: every version, every rejection, who moved the head and why; and the actions that change it. */
import { useContext, useEffect, useMemo, useState } from 'preact/hooks'
import { useData } from '../api.ts'
import { count, number, reward, time } from '../format.ts'
import { html, type View } from '../html.ts'
import { useLivePart } from '../live.ts'
import { Act, NEEDS } from '../parts/act.ts'
import { Confirm, type Action } from '../parts/confirm.ts'
import { Branches } from '../parts/branches.ts'
import { eventText, lineageEvents } from '../parts/lineage-events.ts'
import { LineageChart } from '../parts/lineage.ts'
import { Await, ErrorNote } from '../parts/state.ts'
import { Table } from '../parts/table.ts'
import { useOlder } from '../parts/use-older.ts'
import { gateReason, status } from '../reasons.ts'
import type { Lineage, UpdateRow, VersionRow } from '../rows.ts'
import { SessionContext } from '../session-context.ts'

export const rollback = (row: { version: number }, head: number): Action => ({
  title: `Serve version ${row.version}?`,
  what: html`<p>New requests get version ${row.version} instead of ${head} as soon as its adapter is loaded; answers
    that are being written go on. Learning is frozen, so that nothing is learned on top until you resume it.
      Version ${head} stays and can be served again.</p>`,
  verb: `Serve version ${row.version}`,
  command: 'rollback',
  body: { version: row.version },
})

const freezing = (frozen: boolean): Action =>
  frozen
    ? {
        title: 'Resume learning?',
        what: html`<p>Scored turns are trained on again, on top of the version that serves now.</p>`,
        verb: 'Resume learning',
        command: 'thaw',
        body: {},
      }
    : {
        title: 'Freeze learning?',
        what: html`<p>Turns are still recorded and scored; no update is computed or published until you resume.</p>`,
        verb: 'Freeze learning',
        command: 'freeze',
        body: {},
      }

/** Rewards are within −1…1, the interval of their mean as well. */
export const interval = ({ reward_low, reward_high }: VersionRow): string =>
  [reward_low === null ? null : Math.max(-1, reward_low), reward_high === null ? null : Math.min(1, reward_high)]
    .map((end) => reward(end))
    .join(' … ')

export const Interval = ({ row }: { row: VersionRow }): View =>
  html`<span title="Mean of the scores that count, with its 95 % confidence interval">${reward(row.reward)}${
    row.reward_low === null ? null : html` <span class="quiet">${interval(row)}</span>`
  }</span>`

/** Drawn again only with other data: a mark in the table leaves it as it is. */
const Chart = ({ all }: { all: Lineage }): View => useMemo(() => html`<${LineageChart} lineage=${all} />`, [all])

/** Events that are listed at first, and that each further click adds. */
const EVENTS = 50

/** As `Chart`. */
const Past = ({ all, older }: { all: Lineage; older: () => void }): View => {
  const [most, setMost] = useState(EVENTS)
  const events = useMemo(() => lineageEvents(all), [all])
  const more = events.length - most
  return useMemo(
    () => html`
      <h2>Rejected updates</h2>
      <${Table} caption="Rejected updates" empty="The gate has rejected none."
        rows=${all.updates.filter((row) => row.status === 'rejected' || row.status === 'failed')} columns=${[
          { name: 'Update', of: (row: UpdateRow) => row.number },
          { name: 'When', of: (row: UpdateRow) => time(row.decided_at ?? row.finished_at) },
          { name: 'On version', numeric: true, of: (row: UpdateRow) => row.parent_version },
          { name: 'Why', of: (row: UpdateRow) => gateReason(row.reason) },
          { name: 'Turns', numeric: true, of: (row: UpdateRow) => row.items },
        ]} />
      <h2>History</h2>
      <ol class="plain">${events
        .slice(0, most)
        .map((event) => html`<li><span class="quiet">${time(event.at)}</span> ${eventText(event)}</li>`)}</ol>
      ${
        more > 0
          ? html`<p><button onClick=${() => setMost(most + EVENTS)}>${Math.min(EVENTS, more)} more events of
              ${' '}${count(events.length)}</button></p>`
          : all.next === null
            ? null
            : html`<p><button onClick=${older}>Older events</button></p>`
      }
    `,
    [all, most],
  )
}

export const VersionsPage = (): View => {
  const lineage = useData<Lineage>('versions')
  const session = useContext(SessionContext)
  const older = useOlder(lineage.data)
  const head = useLivePart(({ now }) => now?.head ?? null)
  const frozen = useLivePart(({ now }) => now?.frozen ?? null)
  const last = useLivePart(({ now }) => now?.last_version ?? null)
  const [action, setAction] = useState<Action | null>(null)
  const [marked, setMarked] = useState<number[]>([])
  // The read model follows the log; what has just happened may not be in it yet.
  useEffect(() => {
    if (last === null) return undefined
    lineage.reload()
    const again = [700, 3_000, 10_000, 30_000].map((ms) => setTimeout(lineage.reload, ms))
    return () => again.forEach((timer) => clearTimeout(timer))
  }, [head, frozen, last])
  const may = session?.may?.actions ?? false
  const mark = (version: number): void =>
    setMarked((all) => (all.includes(version) ? all.filter((one) => one !== version) : [...all.slice(-1), version]))
  return html`
    <div class="row"><h1>Versions</h1><span class="grow"></span>
      ${
        frozen !== null
          ? html`<${Act} may=${may} act=${() => setAction(freezing(frozen))}>${
              frozen ? 'Resume learning' : 'Freeze learning'
            }<//>`
          : null
      }
    </div>
    ${
      may
        ? null
        : html`<p class="quiet" id=${NEEDS}>To freeze learning, serve another version or promote a branch, a session
      needs the scope admin: <code>npx instar open</code> on the gateway’s machine opens one that has it.</p>`
    }
    <${Await} from=${{ ...lineage, data: older.all }} of=${(all: Lineage) => html`
      <${Chart} all=${all} />
      <div class="row">
        ${
          marked.length === 2
            ? html`<a class="button" href=${`#/versions/${Math.max(...marked)}?with=${Math.min(...marked)}`}
                >Compare ${Math.min(...marked)} and ${Math.max(...marked)}</a
              >`
            : html`<span class="quiet">Mark two versions in the first column to compare their figures.</span>`
        }
      </div>
      <${Table} caption="Versions" rows=${all.versions} state=${(row: VersionRow) =>
        `${marked.includes(row.version)} ${head} ${may}`} columns=${[
        {
          name: 'Version',
          of: (row: VersionRow) =>
            html`<label class="check"><input type="checkbox" aria-label=${`Mark version ${row.version}`}
              checked=${marked.includes(row.version)} onChange=${() => mark(row.version)} /> <a
                href=${`#/versions/${row.version}`}>${row.version}</a></label>`,
        },
        { name: 'From', numeric: true, of: (row: VersionRow) => row.parent ?? '–' },
        {
          name: 'Status',
          title: [
            'serving: answers requests now',
            'superseded: a later version grew from it, and it can be served again',
            'rolled back: left behind by a rollback',
          ].join('; '),
          of: (row: VersionRow) =>
            html`<span class=${`tag ${row.status}`} title=${status(row.status)}>${row.status.replace('_', ' ')}</span>`,
        },
        {
          name: 'Published',
          of: (row: VersionRow) =>
            html`<span title=${row.published_at}>${time(row.published_at)
              .split(' ')
              .map((part) => html`<span class="nowrap">${part}</span> `)}</span>`,
        },
        {
          name: 'Reward',
          numeric: true,
          of: (row: VersionRow) => html`<${Interval} row=${row} />`,
          title: 'Mean score of its answers, from −1 to +1, with its 95 % interval',
        },
        { name: 'Turns', numeric: true, of: (row: VersionRow) => count(row.turns), title: 'Answered by it' },
        {
          name: 'Trained on',
          numeric: true,
          of: (row: VersionRow) => count(row.trained_turns),
          title: 'Turns of its batch',
        },
        {
          name: 'Probes',
          numeric: true,
          of: (row: VersionRow) => number(row.content, 3),
          title: 'Share of the gate’s probes that it answers',
        },
        {
          name: 'KL parent',
          numeric: true,
          of: (row: VersionRow) => number(row.kl_parent, 3),
          title: 'How far its answers are from those of the version that it grew from, in nats per token',
        },
        {
          name: 'KL base',
          numeric: true,
          of: (row: VersionRow) => number(row.kl_base, 3),
          title: 'How far they are from those of the base model, in nats per token',
        },
        {
          name: 'Length',
          numeric: true,
          of: (row: VersionRow) => number(row.sampled_length, 1),
          title: 'Mean tokens of the gate’s samples',
        },
        {
          name: 'p50',
          numeric: true,
          of: (row: VersionRow) => (row.latency_p50_ms === null ? '–' : `${Math.round(row.latency_p50_ms)} ms`),
          title: 'Half of its answers took no longer',
        },
        {
          name: 'Action',
          of: (row: VersionRow) =>
            row.version === head
              ? html`<span class="quiet">serves</span>`
              : html`<${Act} may=${may} small=${true} act=${() => setAction(rollback(row, head ?? 0))}>Serve<//>`,
        },
      ]} />
      ${
        all.next === null
          ? null
          : html`<p><span class="quiet">The newest ${count(all.versions.length)} of${' '}
              ${count(all.versions[0]!.version + 1)} versions.</span> <button onClick=${older.load}>Older versions and
                events</button></p>`
      }
      ${older.error ? html`<${ErrorNote} error=${older.error} />` : null}
      ${
        all.branches.length > 0
          ? html`<h2>Branches</h2>
            <p class="quiet">Trained from the same history with other settings (<code>instar
              replay --branch</code>).${
                (all.branches[0]!.of_all ?? 0) > all.branches.length
                  ? ` The newest ${all.branches.length} of ${all.branches[0]!.of_all}.`
                  : ''
              }</p>
            <${Branches} rows=${all.branches} head=${head ?? 0} may=${may} act=${setAction} />`
          : null
      }
      <${Past} all=${all} older=${older.load} />
    `} />
    ${
      action
        ? html`<${Confirm} action=${action} done=${(happened: boolean) => {
            setAction(null)
            if (happened) lineage.reload()
          }} />`
        : null
    }
  `
}
