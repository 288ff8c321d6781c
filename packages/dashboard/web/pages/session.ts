/** One conversation: each turn with what was said, its score, its feedback, and what was learned from it. */
import { useContext, useState } from 'preact/hooks'
import { get, save, useData, type ApiError } from '../api.ts'
import { duration, reward, shortId, time } from '../format.ts'
import { html, type View } from '../html.ts'
import { Feedback } from '../parts/feedback.ts'
import { Await, ErrorNote } from '../parts/state.ts'
import { untrained } from '../reasons.ts'
import type { Next, SessionRow, ShownText, TurnRow, TurnTextRow } from '../rows.ts'
import type { PageProps } from '../page.ts'
import { SessionContext } from '../session-context.ts'

type Whole = { session: SessionRow & { children: string[] }; turns: { rows: TurnRow[]; next: Next } }

const Words = ({ said }: { said: ShownText }): View =>
  html`<div class="text">${said.text}${
    said.omitted > 0 ? html`<span class="quiet"> (${said.omitted} characters left out)</span>` : null
  }</div>`

/** What became of a turn in the training, in words. */
export const fate = (turn: TurnRow): string => {
  if (turn.used) {
    const learned =
      turn.trained_version === null ? `update ${turn.update_number ?? ''}` : `version ${turn.trained_version}`
    return `Trained on in ${learned}, advantage ${reward(turn.advantage)}${turn.trained_hint ? ', with its hint' : ''}.`
  }
  if (turn.used === false) return untrained(turn.drop_reason) ?? 'Dropped by a batch.'
  if (!turn.trainable) return untrained(turn.turn_reason) ?? 'Not trainable.'
  if (turn.reward === null && turn.score_reason) return untrained(turn.score_reason) ?? turn.score_reason
  if (turn.reward !== null) return 'Scored; waits for a batch.'
  return turn.next_state === 'open' ? 'Waits for the next message, which will judge it.' : 'Waits for a judge.'
}

const Score = ({ turn }: { turn: TurnRow }): View => html`
  <dl class="facts">
    <div><dt>Reward</dt><dd class=${turn.reward === null ? '' : turn.reward > 0 ? 'good' : turn.reward < 0 ? 'bad' : ''}>${reward(turn.reward)}</dd></div>
    ${turn.judge ? html`<div><dt>Judged by</dt><dd>${turn.explicit ? 'feedback' : turn.judge}</dd></div>` : null}
    ${turn.hint ? html`<div><dt>Hint</dt><dd>“${turn.hint}”</dd></div>` : null}
    ${(turn.verdicts ?? []).length > 1 ? html`<div><dt>Votes</dt><dd>${(turn.verdicts ?? []).map(({ judge, value, note }) => html`<span class="tag" title=${note}>${judge} ${reward(value)}</span>`)}</dd></div>` : null}
    ${(turn.feedback ?? []).map(
      ({ value, at }) => html`<div><dt>Feedback</dt><dd title=${at}>${reward(value)}</dd></div>`,
    )}
    <div><dt>Training</dt><dd>${fate(turn)}</dd></div>
  </dl>
`

const Turn = ({ turn, text }: { turn: TurnRow; text: boolean }): View => {
  const words = useData<TurnTextRow>(text && turn.shown ? `turns/${encodeURIComponent(turn.turn_id)}/text` : null)
  return html`
    <li class=${`turn ${turn.kind}`}>
      ${turn.kind === 'side' ? html`<p class="tag">side request</p>` : null}
      ${turn.shown ? null : html`<p class="tag">background candidate</p>`}
      ${
        text && turn.shown
          ? html`<${Await} from=${words} of=${({ messages, answer, omitted }: TurnTextRow) => html`
            ${omitted > 0 ? html`<p class="quiet">${omitted} earlier messages</p>` : null}
            ${messages.map(
              (message) => html`<div class=${`message ${message.role}`}><span
                class="who">${message.role}${message.name ? ` ${message.name}` : ''}</span><${Words}
                  said=${message.content} />
              ${message.calls.map(
                ({ name, input }) => html`<div class="call"><code>${name}</code> <${Words} said=${input} /></div>`,
              )}</div>`,
            )}
            <div class="message assistant"><span
              class="who">version ${turn.version}${turn.status === 'aborted' ? ', cut short' : ''}</span><${Words}
                said=${answer} /></div>
          `} />`
          : null
      }
      <div class="row">
        <a href=${`#/turns/${encodeURIComponent(turn.turn_id)}`}>Turn <code>${shortId(turn.turn_id)}</code></a>
        <span class="quiet">${time(turn.started_at)} · ${turn.completion_tokens} tokens · ${duration(turn.latency_ms)} · version ${turn.version}${turn.candidates > 1 ? ` · candidate ${turn.candidate + 1} of ${turn.candidates}` : ''}</span>
      </div>
      <${Score} turn=${turn} />
      ${turn.status === 'complete' && turn.shown ? html`<${Feedback} turn=${turn.turn_id} />` : null}
    </li>
  `
}

export const SessionPage = ({ params }: PageProps): View => {
  const id = params[0]!
  const session = useContext(SessionContext)
  const whole = useData<Whole>(`sessions/${encodeURIComponent(id)}`)
  const [more, setMore] = useState<TurnRow[]>([])
  const [next, setNext] = useState<Next | undefined>(undefined)
  const [error, setError] = useState<ApiError | null>(null)
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
      return html`
        <p class="quiet">Began ${time(row.started_at)} · ${row.dialect} · recognised by ${row.label_source} · person <a
          href=${`#/sessions?subject=${encodeURIComponent(row.subject)}`}><code>${shortId(row.subject)}</code></a>${row.key_id ? html` · key ${row.key_id}` : null}
          ${
            row.parent_session_id
              ? html` · subagent of <a
            href=${`#/sessions/${encodeURIComponent(row.parent_session_id)}`}><code>${shortId(row.parent_session_id)}</code></a>`
              : null
          }
          ${
            row.children.length > 0
              ? html` · subagents: ${row.children.map(
                  (child) => html` <a
            href=${`#/sessions/${encodeURIComponent(child)}`}><code>${shortId(child)}</code></a>`,
                )}`
              : null
          }</p>
        ${
          text
            ? null
            : html`<p class="note quiet">Texts are hidden: they need an API key with the scope read, or a
          session of <code>instar open</code>.</p>`
        }
        <ol class="turns">${[...turns.rows, ...more].map(
          (turn) => html`<${Turn} key=${turn.turn_id} turn=${turn} text=${text} />`,
        )}</ol>
        ${error ? html`<${ErrorNote} error=${error} />` : null}
        ${following ? html`<p><button onClick=${() => load(following)}>Later turns</button></p>` : null}
      `
    }} />
  `
}
