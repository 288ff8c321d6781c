/** A search in the texts of the newest turns, and what it found; older turns are searched on request. */
import { useEffect, useState } from 'preact/hooks'
import { get, useData, type ApiError } from '../api.ts'
import { count, shortId } from '../format.ts'
import { html, type View } from '../html.ts'
import type { HitRow, SearchRows } from '../rows.ts'
import { Await, ErrorNote } from './state.ts'

export const SearchForm = ({ text }: { text: string }): View => {
  const submit = (event: Event): void => {
    event.preventDefault()
    const said = new FormData(event.target as HTMLFormElement).get('text')
    const wanted = typeof said === 'string' ? said.trim() : ''
    location.hash = `#/sessions${wanted ? `?text=${encodeURIComponent(wanted)}` : ''}`
  }
  return html`
    <form class="row" role="search" onSubmit=${submit} key=${text}>
      <label class="row grow">Words in texts
        <input class="grow" type="search" name="text" maxlength="200" value=${text}
          placeholder="What was said, by people or by the model" /></label>
      <button>Search</button>
    </form>
  `
}

const Hit = ({ hit }: { hit: HitRow }): View => html`
  <li class="card">
    <p><a href=${`#/sessions/${encodeURIComponent(hit.session_id)}`}>Session <code>${shortId(hit.session_id)}</code></a>
      ${' · '}<a href=${`#/turns/${encodeURIComponent(hit.turn_id)}`}>turn <code>${shortId(hit.turn_id)}</code></a>
      ${' '}<span class="quiet">${hit.who}</span></p>
    <p class="text">${hit.before}<mark>${hit.match}</mark>${hit.after}</p>
  </li>
`

export const TextHits = ({ text }: { text: string }): View => {
  const path = `search?text=${encodeURIComponent(text)}`
  const first = useData<SearchRows>(path)
  const [more, setMore] = useState<SearchRows[]>([])
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  useEffect(() => setMore([]), [path])
  return html`<${Await} from=${first} of=${(page: SearchRows) => {
    const pages = [page, ...more]
    const { next } = pages.at(-1)!
    const hits = pages.flatMap((one) => one.hits)
    const searched = pages.reduce((sum, one) => sum + one.searched, 0)
    const load = async (from: NonNullable<SearchRows['next']>): Promise<void> => {
      setBusy(true)
      setError(null)
      try {
        const older = await get<SearchRows>(`/v1/dashboard/${path}&at=${from.at}&after=${encodeURIComponent(from.id)}`)
        setMore((all) => [...all, older])
      } catch (failure) {
        setError(failure as ApiError)
      } finally {
        setBusy(false)
      }
    }
    return html`
      <p role="status">${count(hits.length)} of the newest ${count(searched)} turns have
        “${text}”${next ? '.' : ': all that the gateway keeps in its index.'}
        ${' '}<a href="#/sessions">All sessions</a></p>
      <ol class="plain hits">${hits.map((hit) => html`<${Hit} key=${hit.turn_id} hit=${hit} />`)}</ol>
      ${error ? html`<${ErrorNote} error=${error} />` : null}
      ${
        next
          ? html`<p><button disabled=${busy} onClick=${() => load(next)}>
              ${busy ? 'Searching…' : 'Search older turns'}</button></p>`
          : null
      }
    `
  }} />`
}
