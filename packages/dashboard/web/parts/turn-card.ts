/** One turn in its conversation: what was said, its score in words, and what was learned from it. */
import { useEffect } from 'preact/hooks'
import { useData } from '../api.ts'
import { duration, reward, shortId, time } from '../format.ts'
import { html, type View } from '../html.ts'
import { untrained } from '../reasons.ts'
import type { ShownText, TurnRow, TurnTextRow } from '../rows.ts'
import { judgeWords, taskWords } from '../session-words.ts'
import { Feedback } from './feedback.ts'
import { NextState, type Beginnings } from './next-state.ts'
import { Await } from './state.ts'

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
  const not = (code: string | null, otherwise: string): string => `Not trained on. ${untrained(code) ?? otherwise}`
  if (turn.used === false) return not(turn.drop_reason, 'Dropped by a batch.')
  if (!turn.trainable) return not(turn.turn_reason, '')
  if (turn.reward === null && turn.score_reason) return not(turn.score_reason, '')
  if (turn.reward !== null) return 'Scored; waits for a batch.'
  return turn.next_state === 'open' ? 'Waits for the next message, which will judge it.' : 'Waits for a judge.'
}

const sign = (value: number | null): string => (value === null || value === 0 ? '' : value > 0 ? 'good' : 'bad')

const Verdicts = ({ turn }: { turn: TurnRow }): View => html`
  <details><summary>How it was judged</summary><dl class="terms">
    ${(turn.verdicts ?? []).map(({ judge, value, note }) => {
      const { name, what } = judgeWords(judge)
      return html`<div><dt>${name}</dt><dd>${value === null ? 'no opinion' : reward(value)}. ${what}
        ${' '}<span class="quiet"><code>${judge}</code>${note ? `: ${note}` : ''}</span></dd></div>`
    })}
  </dl></details>
`

/** A person's words about the answer, with the value that they were given with. */
export const Comments = ({ said }: { said: TurnTextRow['comments'] }): View =>
  html`${said.map(
    ({ id, value, at, said: words }) => html`<div class="comment" key=${id}>
      <span class="who" title=${at}>comment with feedback ${reward(value)}</span><${Words} said=${words} /></div>`,
  )}`

const Score = ({ turn, next }: { turn: TurnRow; next: View }): View => {
  const by = turn.explicit ? 'feedback' : turn.judge
  return html`
    <dl class="facts">
      ${next}
      <div><dt>Reward</dt><dd class=${sign(turn.reward)}>${reward(turn.reward)}</dd></div>
      ${by ? html`<div><dt>Judged by</dt><dd>${judgeWords(by).name}</dd></div>` : null}
      ${turn.hint ? html`<div><dt>Hint: what would be better</dt><dd>“${turn.hint}”</dd></div>` : null}
      ${(turn.feedback ?? []).map(
        ({ value, at }) => html`<div><dt>Feedback</dt><dd title=${at}>${reward(value)}</dd></div>`,
      )}
      <div><dt>Training</dt><dd>${fate(turn)}</dd></div>
    </dl>
    ${(turn.verdicts ?? []).length > 0 ? html`<${Verdicts} turn=${turn} />` : null}
  `
}

/** What the request is, where it is not the next message of the conversation. */
export const Kind = ({ turn, task, first }: { turn: TurnRow; task: TurnTextRow['task']; first: boolean }): View => {
  if (turn.kind === 'side') {
    const { name, what } = taskWords(task)
    return html`<p><span class="tag">${name}</span> <span class="quiet">${what}. It is never trained on.</span></p>`
  }
  if (!turn.shown)
    return html`<p><span class="tag">Not sent</span> <span class="quiet">sampled in the background to compare; nobody
      got it.</span></p>`
  if (first || turn.follows_turn_id !== null || !turn.off_prefix) return null
  return html`<p><span class="tag">New history</span> <span class="quiet">the request does not continue an answer of
    this session: the agent replaced or shortened the conversation, as after a compaction.</span></p>`
}

const Said = ({ turn, said }: { turn: TurnRow; said: TurnTextRow }): View => html`
  ${said.omitted > 0 ? html`<p class="quiet">${said.omitted} earlier messages</p>` : null}
  ${said.messages.map(
    (message) => html`<div class=${`message ${message.role}`}><span
      class="who">${message.role}${message.name ? ` ${message.name}` : ''}</span><${Words} said=${message.content} />
      ${message.calls.map(
        ({ name, input }) => html`<div class="call"><code>${name}</code> <${Words} said=${input} /></div>`,
      )}</div>`,
  )}
  <div class="message assistant"><span class="who">model, version ${turn.version}${
    turn.status === 'aborted' ? ', cut short' : ''
  }</span><${Words} said=${said.answer} /></div>
`

type TurnCardProps = { turn: TurnRow; text: boolean; first: boolean; beginnings: Beginnings }

/** `first`: of its session. `beginnings`: of the requests of the turns that the page shows. */
export const TurnCard = ({ turn, text, first, beginnings }: TurnCardProps): View => {
  const words = useData<TurnTextRow>(text && turn.shown ? `turns/${encodeURIComponent(turn.turn_id)}/text` : null)
  const begins = words.data?.messages[0]?.role
  useEffect(() => {
    if (begins !== undefined) beginnings.tell(turn.turn_id, begins)
  }, [begins])
  return html`
    <li class=${`turn ${turn.kind}`}>
      <${Kind} turn=${turn} task=${words.data?.task ?? null} first=${first} />
      ${
        text && turn.shown
          ? html`<${Await} from=${words} of=${(said: TurnTextRow) => html`<${Said} turn=${turn} said=${said} />`} />`
          : null
      }
      <div class="row">
        <a href=${`#/turns/${encodeURIComponent(turn.turn_id)}`}>Turn <code>${shortId(turn.turn_id)}</code></a>
        <span class="quiet">${[
          time(turn.started_at),
          `${turn.completion_tokens} tokens`,
          duration(turn.latency_ms),
          `version ${turn.version}`,
          ...(turn.candidates > 1 ? [`candidate ${turn.candidate + 1} of ${turn.candidates}`] : []),
        ].join(' · ')}</span>
      </div>
      <${Score} turn=${turn} next=${html`<${NextState} turn=${turn} beginnings=${beginnings} />`} />
      <${Comments} said=${words.data?.comments ?? []} />
      ${turn.status === 'complete' && turn.shown ? html`<${Feedback} turn=${turn.turn_id} />` : null}
    </li>
  `
}
