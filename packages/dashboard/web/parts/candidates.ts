/** The candidates of one request side by side: what each said, how it was scored, and which one the person got. */
import { useData } from '../api.ts'
import { number, reward } from '../format.ts'
import { html, type View } from '../html.ts'
import type { CandidateRow, TurnTextRow } from '../rows.ts'
import { Await } from './state.ts'

/** Candidates whose texts are shown; the others are in the links below. */
const MOST = 8
/** Candidates that the gateway tells. */
const GROUP = 32

const Candidate = ({ row, text, here }: { row: CandidateRow; text: boolean; here: boolean }): View => {
  const said = useData<TurnTextRow>(text ? `turns/${encodeURIComponent(row.turn_id)}/text` : null)
  const name = `Candidate ${row.candidate + 1}`
  return html`
    <section class=${here ? 'card here' : 'card'} aria-label=${name}>
      <h3>${here ? `${name}, this turn` : html`<a href=${`#/turns/${encodeURIComponent(row.turn_id)}`}>${name}</a>`}
        ${' '}<span class=${row.shown ? 'tag serving' : 'tag'}>
          ${row.shown ? 'sent to the person' : 'only compared'}</span></h3>
      <dl class="facts">
        <div><dt>Reward</dt><dd>${reward(row.reward)}</dd></div>
        <div><dt>Advantage</dt><dd>${reward(row.advantage)}</dd></div>
        <div><dt>Tokens</dt><dd>${number(row.completion_tokens, 0)}</dd></div>
        <div><dt>Trained on</dt><dd>${row.used === null ? 'not yet' : row.used ? 'yes' : 'no'}</dd></div>
      </dl>
      ${
        text
          ? html`<${Await} from=${said} of=${({ answer }: TurnTextRow) =>
              html`<div class="text clipped" tabindex="0" role="region"
                aria-label=${`Text of ${name}`}>${answer.text}</div>`} />`
          : null
      }
    </section>
  `
}

const countOf = (shown: number, all: number): string =>
  shown >= GROUP && all > shown ? `first ${shown} of ${all}` : String(shown)

export const Candidates = ({
  group,
  all,
  turn,
  text,
}: {
  group: readonly CandidateRow[]
  /** How many the request asked for. */
  all: number
  turn: string
  text: boolean
}): View => html`
  <h2>The ${countOf(group.length, all)} answers that were sampled for this request</h2>
  <p class="quiet">They are compared with each other: the advantage is how much better one was than their mean.</p>
  <div class="cards">${group
    .slice(0, MOST)
    .map((row) => html`<${Candidate} key=${row.turn_id} row=${row} text=${text} here=${row.turn_id === turn} />`)}</div>
  ${
    group.length > MOST
      ? html`<p>${group
          .slice(MOST)
          .map(
            (row) =>
              html`<a href=${`#/turns/${encodeURIComponent(row.turn_id)}`}>candidate ${row.candidate + 1}</a> (${reward(
                row.reward,
              )})${' '}`,
          )}</p>`
      : null
  }
`
