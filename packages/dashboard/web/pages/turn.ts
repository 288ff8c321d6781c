/** One answer token by token: as it was sampled, and as any version would have weighed it. */
import { useContext, useState } from 'preact/hooks'
import { get, useData, type ApiError } from '../api.ts'
import { number, reward, shortId } from '../format.ts'
import { html, type View } from '../html.ts'
import { useLivePart } from '../live.ts'
import { Await, ErrorNote } from '../parts/state.ts'
import { Table } from '../parts/table.ts'
import { Tokens, type ShownToken } from '../parts/tokens.ts'
import type { TurnRow } from '../rows.ts'
import type { PageProps } from '../page.ts'
import { SessionContext } from '../session-context.ts'
import { fate } from './session.ts'

type Whole = {
  turn: TurnRow
  group: {
    turn_id: string
    candidate: number
    shown: boolean
    version: number
    completion_tokens: number
    reward: number | null
  }[]
}
type TokenRows = {
  prompt: { text: string; omitted: number }
  prompt_tokens: number
  exact: boolean
  engine: string
  omitted: number
  tokens: { id: number; text: string; logprob: number | null }[]
}
type Scored = { version: number; logprobs: number[]; top: { text: string; logprob: number }[][] }

/** Change in nats that gets the darkest shade, and log-prob that does where nothing is compared. */
const FULL_CHANGE = 2
const FULL_SURPRISE = 5
const clamp = (value: number): number => Math.max(-1, Math.min(1, value))

const shown = (rows: TokenRows, turn: TurnRow, scored: readonly Scored[]): ShownToken[] =>
  rows.tokens.map(({ text, logprob }, i) => {
    const last = scored.at(-1)
    const change = last && logprob !== null ? (last.logprobs[i] ?? logprob) - logprob : null
    return {
      text,
      shade: change === null ? (logprob === null ? 0 : -clamp(-logprob / FULL_SURPRISE)) : clamp(change / FULL_CHANGE),
      figures: [
        ['log-prob when sampled', logprob],
        ...scored.map(({ version, logprobs }) => [`log-prob under version ${version}`, logprobs[i] ?? null] as const),
        ...(change === null ? [] : [['change', change] as const]),
        ...(turn.advantage === null ? [] : [['advantage', turn.advantage] as const]),
      ],
      ...(last?.top[i] ? { top: last.top[i] } : {}),
    }
  })

const TokenView = ({ id, turn }: { id: string; turn: TurnRow }): View => {
  const rows = useData<TokenRows>(`turns/${encodeURIComponent(id)}/tokens`)
  const head = useLivePart(({ now }) => now?.head ?? null)
  const lastVersion = useLivePart(({ now }) => now?.last_version ?? 0)
  const [scored, setScored] = useState<Scored[]>([])
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const [version, setVersion] = useState('')
  const score = async (wanted: number): Promise<void> => {
    if (scored.some((one) => one.version === wanted))
      return setScored((all) => [
        ...all.filter((one) => one.version !== wanted),
        ...all.filter((one) => one.version === wanted),
      ])
    setBusy(true)
    setError(null)
    try {
      const found = await get<Scored>(`/v1/dashboard/turns/${encodeURIComponent(id)}/logprobs?version=${wanted}`)
      setScored((all) => [...all, found])
    } catch (failure) {
      setError(failure as ApiError)
    } finally {
      setBusy(false)
    }
  }
  return html`<${Await} from=${rows} of=${(data: TokenRows) => html`
    <h2>Answer, token by token</h2>
    ${
      data.exact
        ? html`
        <div class="row">
          <span>Log-probs under</span>
          ${
            head !== null
              ? html`<button onClick=${() => score(head)} disabled=${busy}>the head (${head})</button>`
              : null
          }
          <button onClick=${() => score(0)} disabled=${busy}>the base</button>
          <form class="row" onSubmit=${(event: Event) => {
            event.preventDefault()
            void score(Number(version))
          }}><label class="row">version <input type="number" min="0" max=${lastVersion} required value=${version}
            onInput=${(event: Event) => setVersion((event.target as HTMLInputElement).value)} /></label><button
              disabled=${busy}>Show</button></form>
          ${busy ? html`<span class="quiet" role="status">Waiting until the model is idle…</span>` : null}
        </div>
        ${error ? html`<${ErrorNote} error=${error} />` : null}
        <p class="quiet">${
          scored.length > 0
            ? html`Shaded by how version ${scored.at(-1)!.version} changed each token:
          solid line above = likelier, dotted below = less
            likely.`
            : 'Shaded by surprise: darker tokens were less likely when they were sampled.'
        }</p>
        <${Tokens} label="Answer" tokens=${shown(data, turn, scored)} />
        ${data.omitted > 0 ? html`<p class="quiet">${data.omitted} further tokens</p>` : null}`
        : html`<p class="note quiet">The engine did not say which tokens it sampled.</p>`
    }
    <details><summary>Prompt as it was rendered
      (${data.prompt_tokens} tokens)</summary><pre>${data.prompt.text}</pre></details>
    <p class="quiet">Engine: ${data.engine}</p>
  `} />`
}

export const TurnPage = ({ params }: PageProps): View => {
  const id = params[0]!
  const session = useContext(SessionContext)
  const whole = useData<Whole>(`turns/${encodeURIComponent(id)}`)
  return html`
    <${Await} from=${whole} title=${`Turn ${shortId(id)}`} of=${({ turn, group }: Whole) => html`
      <p><a href="#/sessions">Sessions</a> › <a
        href=${`#/sessions/${encodeURIComponent(turn.session_id)}`}>session <code>${shortId(turn.session_id)}</code></a></p>
      <div class="row"><h1>Turn <code>${shortId(id)}</code></h1><span class="grow"></span>
        ${
          session?.may?.text
            ? html`<a class="button" href=${`#/compare?turn=${encodeURIComponent(id)}&b=${turn.version}`}>Ask this again in
                Compare</a>`
            : null
        }</div>
      <dl class="facts">
        <div><dt>Sampled by</dt><dd><a href=${`#/versions/${turn.version}`}>version ${turn.version}</a> at
          temperature ${turn.temperature}</dd></div>
        <div><dt>Reward</dt><dd>${reward(turn.reward)}</dd></div>
        <div><dt>Baseline, advantage</dt><dd>${reward(turn.baseline)}, ${reward(turn.advantage)}</dd></div>
        ${turn.hint ? html`<div><dt>Hint</dt><dd>“${turn.hint}”</dd></div>` : null}
        <div><dt>Training</dt><dd>${fate(turn)}</dd></div>
      </dl>
      ${
        turn.trained_version !== null && turn.used
          ? html`<p>What this turn did to the weights is in <a
        href=${`#/versions/${turn.trained_version}`}>version ${turn.trained_version}</a>, which was trained on it and on
          others.</p>`
          : null
      }
      <details><summary>What these figures mean</summary><dl class="terms">
        <div><dt>Reward</dt><dd>The judge’s score of the answer, from −1 to +1.</dd></div>
        <div><dt>Baseline</dt><dd>What answers to this person have scored lately; of several candidates, their
          mean.</dd></div>
        <div><dt>Advantage</dt><dd>How much better the answer was than that: above 0 its tokens become likelier,
          below 0 less likely.</dd></div>
        <div><dt>Log-prob</dt><dd>The logarithm of a token’s probability: 0 is certain, −0.7 is 50 %, −2.3 is 10 %. ∅ is
          a token without text, such as the end of the answer.</dd></div>
      </dl></details>
      ${
        session?.may?.text
          ? html`<${TokenView} id=${id} turn=${turn} />`
          : html`<p class="note quiet">Tokens are
        hidden: they need an API key with the scope read, or a session of <code>instar open</code>.</p>`
      }
      ${
        group.length > 1
          ? html`<h2>Candidates of the same request</h2><${Table} caption="Candidates" rows=${group} columns=${[
              {
                name: 'Candidate',
                of: (row: Whole['group'][number]) =>
                  html`<a href=${`#/turns/${encodeURIComponent(row.turn_id)}`}>${row.candidate + 1}</a>${row.shown ? ' shown' : ' in the background'}`,
              },
              { name: 'Reward', numeric: true, of: (row: Whole['group'][number]) => reward(row.reward) },
              { name: 'Tokens', numeric: true, of: (row: Whole['group'][number]) => number(row.completion_tokens, 0) },
            ]} />`
          : null
      }
    `} />
  `
}
