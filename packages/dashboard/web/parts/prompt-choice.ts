/** What Compare asks: a typed prompt, or that of a recorded turn, found among the newest or by words. */
import { useState } from 'preact/hooks'
import { get, useData, type ApiError } from '../api.ts'
import { shortId, time } from '../format.ts'
import { html, type View } from '../html.ts'
import type { SearchRows } from '../rows.ts'
import { Await, Empty, ErrorNote } from './state.ts'

export type Prompt = { turn: string } | { text: string }
type AskedRow = { turn_id: string; asked: string; at: string | null }
type Page = { rows: AskedRow[]; next: { at: number; id: string } | null }

/** Of equal questions the newest. */
const distinct = (rows: readonly AskedRow[]): AskedRow[] =>
  [...new Map(rows.toReversed().map((row) => [row.asked, row])).values()].toReversed()

const Choices = ({ rows, onChoose }: { rows: readonly AskedRow[]; onChoose: (row: AskedRow) => void }): View => html`
  <ul class="plain choices">${distinct(rows).map(
    (row) => html`<li key=${row.turn_id}><button type="button" onClick=${() => onChoose(row)}>
      <span class="grow">${row.asked || '(no text)'}</span>
      ${' '}<span class="quiet">${row.at ? time(row.at) : ''}</span>
    </button></li>`,
  )}</ul>
`

const Newest = ({ onChoose }: { onChoose: (row: AskedRow) => void }): View => {
  const first = useData<Page>('prompts')
  const [more, setMore] = useState<Page[]>([])
  const [error, setError] = useState<ApiError | null>(null)
  const older = ({ at, id }: NonNullable<Page['next']>): Promise<void> =>
    get<Page>(`/v1/dashboard/prompts?at=${at}&after=${encodeURIComponent(id)}`)
      .then((page) => setMore((pages) => [...pages, page]))
      .catch((failure: unknown) => setError(failure as ApiError))
  return html`<${Await} from=${first} of=${(page: Page) => {
    const pages = [page, ...more]
    const rows = pages.flatMap((one) => one.rows)
    const { next } = pages.at(-1)!
    if (rows.length === 0) return html`<${Empty}>No conversation has been recorded yet.<//>`
    return html`
      <${Choices} rows=${rows} onChoose=${onChoose} />
      ${error ? html`<${ErrorNote} error=${error} />` : null}
      ${next ? html`<button type="button" class="small" onClick=${() => older(next)}>Older prompts</button>` : null}
    `
  }} />`
}

const Found = ({ text, onChoose }: { text: string; onChoose: (row: AskedRow) => void }): View => {
  const found = useData<SearchRows>(`search?text=${encodeURIComponent(text)}`)
  return html`<${Await} from=${found} of=${({ hits, searched }: SearchRows) =>
    hits.length === 0
      ? html`<${Empty}>None of the newest ${searched} turns has “${text}”.<//>`
      : html`<${Choices} onChoose=${onChoose} rows=${hits.map(({ turn_id, before, match, after }): AskedRow => ({
          turn_id,
          asked: before + match + after,
          at: null,
        }))} />`} />`
}

export const HistoryPrompt = ({
  turn,
  onChoose,
}: {
  turn: string | null
  onChoose: (turn: string | null) => void
}): View => {
  const [words, setWords] = useState('')
  const [searched, setSearched] = useState('')
  const tokens = useData<{ prompt: { text: string; omitted: number }; prompt_tokens: number }>(
    turn === null ? null : `turns/${encodeURIComponent(turn)}/tokens`,
  )
  if (turn !== null)
    return html`
      <div class="row"><span>The prompt of <a href=${`#/turns/${encodeURIComponent(turn)}`}>turn
        <code>${shortId(turn)}</code></a>, by its recorded tokens</span>
        <button type="button" class="small" onClick=${() => onChoose(null)}>Choose another</button></div>
      <${Await} from=${tokens} of=${({ prompt, prompt_tokens: count }: NonNullable<typeof tokens.data>) => html`
        <details><summary>The whole prompt (${count} tokens)</summary><pre>${prompt.text}</pre></details>`} />
    `
  const choose = ({ turn_id: id }: AskedRow): void => onChoose(id)
  return html`
    <div class="row">
      <label class="row grow">Words in it <input class="grow" type="search" maxlength="200" value=${words}
        onInput=${(event: Event) => setWords((event.target as HTMLInputElement).value)}
        onKeyDown=${(event: KeyboardEvent) => {
          if (event.key !== 'Enter') return
          event.preventDefault()
          setSearched(words.trim())
        }} /></label>
      <button type="button" onClick=${() => setSearched(words.trim())}>Search</button>
    </div>
    ${searched === '' ? html`<${Newest} onChoose=${choose} />` : html`<${Found} text=${searched} onChoose=${choose} />`}
  `
}
