/** One conversation: each turn with what was said, its score, its feedback, and what was learned from it. */
import { useContext, useMemo, useState } from 'preact/hooks'
import { get, save, useData, type ApiError } from '../api.ts'
import { shortId, time } from '../format.ts'
import { html, type View } from '../html.ts'
import { Beginnings } from '../parts/next-state.ts'
import { Await, ErrorNote } from '../parts/state.ts'
import { TurnCard } from '../parts/turn-card.ts'
import type { Next, SessionRow, TurnRow } from '../rows.ts'
import type { PageProps } from '../page.ts'
import { SessionContext } from '../session-context.ts'
import { agentsWords, DIALECTS, sourceWords } from '../session-words.ts'

type Whole = {
  session: SessionRow & { children: string[]; all_children: number }
  turns: { rows: TurnRow[]; next: Next }
}

const SessionLink = ({ id }: { id: string }): View =>
  html`<a href=${`#/sessions/${encodeURIComponent(id)}`}><code>${shortId(id)}</code></a>`

const Facts = ({ row }: { row: Whole['session'] }): View => html`
  <dl class="facts">
    <div><dt>Began</dt><dd>${time(row.started_at)}</dd></div>
    <div><dt>Agent</dt><dd>${agentsWords(row.agents)}</dd></div>
    <div><dt>API</dt><dd>${DIALECTS[row.dialect] ?? row.dialect}</dd></div>
    <div><dt>Person</dt><dd><a
      href=${`#/sessions?subject=${encodeURIComponent(row.subject)}`}><code>${shortId(row.subject)}</code></a></dd>
    </div>
    ${row.key_id ? html`<div><dt>API key</dt><dd>${row.key_id}</dd></div>` : null}
    <div><dt>Known as one session because</dt><dd>${sourceWords(row.label_source)}</dd></div>
  </dl>
  ${
    row.parent_session_id
      ? html`<p><span class="tag">Subagent</span> An agent of session <${SessionLink} id=${row.parent_session_id} />
          ${' '}started this one for a part of its task.</p>`
      : null
  }
  ${
    row.children.length > 0
      ? html`<p>Subagents that it started${
          row.all_children > row.children.length ? `, the first ${row.children.length} of ${row.all_children}` : ''
        }: ${row.children.map((child) => html`<${SessionLink} key=${child} id=${child} /> `)}</p>`
      : null
  }
`

export const SessionPage = ({ params }: PageProps): View => {
  const id = params[0]!
  const session = useContext(SessionContext)
  const whole = useData<Whole>(`sessions/${encodeURIComponent(id)}`)
  const [more, setMore] = useState<TurnRow[]>([])
  const [next, setNext] = useState<Next | undefined>(undefined)
  const [error, setError] = useState<ApiError | null>(null)
  const beginnings = useMemo(() => new Beginnings(), [id])
  const load = async (from: NonNullable<Next>): Promise<void> => {
    try {
      const after = new URLSearchParams({ at: from.at, after: from.id })
      const { turns } = await get<Whole>(`/v1/dashboard/sessions/${encodeURIComponent(id)}?${after.toString()}`)
      setMore((rows) => [...rows, ...turns.rows])
      setNext(turns.next)
    } catch (failure) {
      setError(failure as ApiError)
    }
  }
  const exportTurns = (): Promise<void> =>
    save(`/v1/dashboard/sessions/${encodeURIComponent(id)}/export`, `${id}.jsonl`).catch((failure: unknown) =>
      setError(failure as ApiError),
    )
  const text = session?.may?.text ?? false
  return html`
    <p><a href="#/sessions">Sessions</a></p>
    <div class="row"><h1>Session <code>${shortId(id)}</code></h1><span class="grow"></span>
      ${text ? html`<button onClick=${exportTurns}>Export</button>` : null}
      <button onClick=${() => {
        setMore([])
        setNext(undefined)
        whole.reload()
      }}>Refresh</button></div>
    <${Await} from=${whole} of=${({ session: row, turns }: Whole) => {
      const following = next === undefined ? turns.next : next
      const rows = [...turns.rows, ...more]
      return html`
        <${Facts} row=${row} />
        ${
          text
            ? null
            : html`<p class="note quiet">Texts are hidden: they need an API key with the scope read, or a session of
                <code>instar open</code>.</p>`
        }
        <ol class="turns">${rows.map(
          (turn, i) => html`<${TurnCard} key=${turn.turn_id} turn=${turn} text=${text} first=${i === 0}
            beginnings=${beginnings} />`,
        )}</ol>
        ${error ? html`<${ErrorNote} error=${error} />` : null}
        ${following ? html`<p><button onClick=${() => load(following)}>Later turns</button></p>` : null}
      `
    }} />
  `
}
