/** One answer: its score, what was learned from it, its tokens, and the other candidates of its request. */
import { useContext } from 'preact/hooks'
import { useData } from '../api.ts'
import { number, reward, shortId } from '../format.ts'
import { html, type View } from '../html.ts'
import { Candidates } from '../parts/candidates.ts'
import { Await } from '../parts/state.ts'
import { TokenView } from '../parts/token-view.ts'
import { fate, Kind } from '../parts/turn-card.ts'
import type { CandidateRow, TurnRow } from '../rows.ts'
import type { PageProps } from '../page.ts'
import { SessionContext } from '../session-context.ts'
import { agentsWords } from '../session-words.ts'

type Whole = { turn: TurnRow; group: CandidateRow[] }

const Terms = (): View => html`
  <details><summary>What these figures mean</summary><dl class="terms">
    <div><dt>Reward</dt><dd>The judge’s score of the answer, from −1 to +1.</dd></div>
    <div><dt>Baseline</dt><dd>What answers to this person have scored lately; of several candidates, their
      mean.</dd></div>
    <div><dt>Advantage</dt><dd>How much better the answer was than that: above 0 its tokens become likelier, below 0
      less likely.</dd></div>
    <div><dt>Hint</dt><dd>What would have been better, in the judge’s words. The update learns from how the base model
      would answer with it in the prompt (distillation, OPD).</dd></div>
    <div><dt>Log-prob</dt><dd>The logarithm of a token’s probability: 0 is certain, −0.7 is 50 %, −2.3 is 10 %. ∅ is a
      token without text, such as the end of the answer.</dd></div>
  </dl></details>
`

export const TurnPage = ({ params }: PageProps): View => {
  const id = params[0]!
  const text = useContext(SessionContext)?.may?.text ?? false
  const whole = useData<Whole>(`turns/${encodeURIComponent(id)}`)
  return html`
    <${Await} from=${whole} title=${`Turn ${shortId(id)}`} of=${({ turn, group }: Whole) => html`
      <p><a href="#/sessions">Sessions</a> › <a href=${`#/sessions/${encodeURIComponent(turn.session_id)}`}>session
        ${' '}<code>${shortId(turn.session_id)}</code></a></p>
      <div class="row"><h1>Turn <code>${shortId(id)}</code></h1><span class="grow"></span>
        ${
          text
            ? html`<a class="button" href=${`#/compare?turn=${encodeURIComponent(id)}&b=${turn.version}`}>Ask this again
                in Compare</a>`
            : null
        }</div>
      <${Kind} turn=${turn} task=${null} first />
      <dl class="facts">
        <div><dt>Sampled by</dt><dd><a href=${`#/versions/${turn.version}`}>version ${turn.version}</a> at
          temperature ${number(turn.temperature, 2)}</dd></div>
        <div><dt>Asked by</dt><dd>${agentsWords([turn.agent])}</dd></div>
        <div><dt>Reward</dt><dd>${reward(turn.reward)}</dd></div>
        <div><dt>Baseline</dt><dd>${reward(turn.baseline)}</dd></div>
        <div><dt>Advantage</dt><dd>${reward(turn.advantage)}</dd></div>
        ${turn.hint ? html`<div><dt>Hint</dt><dd>“${turn.hint}”</dd></div>` : null}
        <div><dt>Training</dt><dd>${fate(turn)}</dd></div>
      </dl>
      ${
        turn.trained_version !== null && turn.used
          ? html`<p>What this turn did to the weights is in <a
              href=${`#/versions/${turn.trained_version}`}>version ${turn.trained_version}</a>, which was trained on it
              and on others.</p>`
          : null
      }
      <${Terms} />
      ${
        text
          ? html`<${TokenView} id=${id} turn=${turn} />`
          : html`<p class="note quiet">Tokens are hidden: they need an API key with the scope read, or a session of
              <code>instar open</code>.</p>`
      }
      ${group.length > 1 ? html`<${Candidates} group=${group} all=${turn.candidates} turn=${id} text=${text} />` : null}
    `} />
  `
}
