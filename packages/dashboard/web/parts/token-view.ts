/** The answer of a turn token by token: as sampled, under any version, and what an update did with it. */
import { useState } from 'preact/hooks'
import { get, useData, type ApiError } from '../api.ts'
import { count, number } from '../format.ts'
import { html, type View } from '../html.ts'
import { useLivePart } from '../live.ts'
import type { LearnedRow, TurnRow } from '../rows.ts'
import { LearnedNote, learnedFigures } from './learned.ts'
import { Await, ErrorNote } from './state.ts'
import { Tokens, type ShownToken } from './tokens.ts'

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

const shown = (rows: TokenRows, turn: TurnRow, scored: readonly Scored[], learned: LearnedRow | null): ShownToken[] =>
  rows.tokens.map(({ text, logprob }, i) => {
    const last = scored.at(-1)
    const change = last && logprob !== null ? (last.logprobs[i] ?? logprob) - logprob : null
    return {
      text,
      shade: change === null ? (logprob === null ? 0 : -clamp(-logprob / FULL_SURPRISE)) : clamp(change / FULL_CHANGE),
      figures: [
        ['log-prob when sampled', logprob],
        ...scored.map(({ version, logprobs }) => [`log-prob under version ${version}`, logprobs[i] ?? null] as const),
        ...(change === null ? [] : [[`change by version ${last!.version}`, change] as const]),
        ...(turn.advantage === null ? [] : [['advantage', turn.advantage] as const]),
        ...(learned ? learnedFigures(learned, i) : []),
      ],
      ...(last?.top[i] ? { top: last.top[i] } : {}),
    }
  })

export const TokenView = ({ id, turn }: { id: string; turn: TurnRow }): View => {
  const path = `turns/${encodeURIComponent(id)}`
  const rows = useData<TokenRows>(`${path}/tokens`)
  const head = useLivePart(({ now }) => now?.head ?? null)
  const lastVersion = useLivePart(({ now }) => now?.last_version ?? 0)
  const [scored, setScored] = useState<Scored[]>([])
  const [learned, setLearned] = useState<LearnedRow | null>(null)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const [version, setVersion] = useState('')
  const waiting = async (work: () => Promise<void>): Promise<void> => {
    setBusy(true)
    setError(null)
    try {
      await work()
    } catch (failure) {
      setError(failure as ApiError)
    } finally {
      setBusy(false)
    }
  }
  const score = (wanted: number): Promise<void> =>
    waiting(async () => {
      const found =
        scored.find((one) => one.version === wanted) ??
        (await get<Scored>(`/v1/dashboard/${path}/logprobs?version=${wanted}`))
      setScored((all) => [...all.filter((one) => one.version !== wanted), found])
    })
  const learn = (): Promise<void> =>
    waiting(async () => setLearned(await get<LearnedRow>(`/v1/dashboard/${path}/learned`)))
  return html`<${Await} from=${rows} of=${(data: TokenRows) => html`
    <h2>Answer, token by token</h2>
    ${
      data.exact
        ? html`
        <div class="row">
          <span>Log-probs under</span>
          ${
            head === null
              ? null
              : html`<button onClick=${() => score(head)} disabled=${busy}>the head (${head})</button>`
          }
          <button onClick=${() => score(0)} disabled=${busy}>the base</button>
          <form class="row" onSubmit=${(event: Event) => {
            event.preventDefault()
            void score(Number(version))
          }}><label class="row">version <input type="number" min="0" max=${lastVersion} required value=${version}
            onInput=${(event: Event) => setVersion((event.target as HTMLInputElement).value)} /></label><button
              disabled=${busy}>Show</button></form>
          ${
            turn.used
              ? html`<button onClick=${learn} disabled=${busy || learned !== null}>
                  What the update did with each</button>`
              : null
          }
          ${busy ? html`<span class="quiet" role="status">Waiting until the model is idle…</span>` : null}
        </div>
        ${error ? html`<${ErrorNote} error=${error} />` : null}
        ${learned ? html`<${LearnedNote} learned=${learned} />` : null}
        <p class="quiet">${
          scored.length > 0
            ? html`Shaded by how version ${scored.at(-1)!.version} changed each token: a solid line above it = likelier,
                a dotted one below = less likely.`
            : 'Shaded by surprise: darker tokens were less likely when they were sampled.'
        } ∅ is the end of the answer.</p>
        <${Tokens} label="Answer" tokens=${shown(data, turn, scored, learned)} />
        ${data.omitted > 0 ? html`<p class="quiet">${count(data.omitted)} further tokens</p>` : null}`
        : html`<p class="note quiet">The engine did not say which tokens it sampled, so no update can be trained on
            them.</p>`
    }
    <details><summary>Prompt as the model saw it (${number(data.prompt_tokens, 0)} tokens)</summary>
      <pre>${data.prompt.text}</pre></details>
    <p class="quiet">Engine: ${data.engine}</p>
  `} />`
}
