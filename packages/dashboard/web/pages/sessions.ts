/** Conversations, newest first, with filters that stay in the address. */
import { useContext, useEffect, useState } from 'preact/hooks'
import { get, useData, type ApiError } from '../api.ts'
import { ago, count, reward, shortId, time } from '../format.ts'
import { html, type View } from '../html.ts'
import { Await, ErrorNote } from '../parts/state.ts'
import { Table } from '../parts/table.ts'
import { SearchForm, TextHits } from '../parts/text-search.ts'
import { UNTRAINED_CODES } from '../reasons.ts'
import type { Next, SessionRow } from '../rows.ts'
import type { PageProps } from '../page.ts'
import { SessionContext } from '../session-context.ts'
import { AGENT_CHOICES, agentsWords, DIALECTS, SOURCE_CHOICES } from '../session-words.ts'

type Page = { rows: SessionRow[]; next: Next }

const FIELDS = [
  { name: 'id', label: 'Session or turn id begins with', type: 'text' },
  { name: 'subject', label: 'Person (their id)', type: 'text' },
  { name: 'key', label: 'API key id', type: 'text' },
  { name: 'version', label: 'Answered by version', type: 'number' },
] as const

const CHOICES = [
  { name: 'agent', label: 'Agent', values: AGENT_CHOICES },
  { name: 'dialect', label: 'API', values: Object.entries(DIALECTS) },
  { name: 'source', label: 'Known as one session by', values: Object.entries(SOURCE_CHOICES) },
  {
    name: 'reward',
    label: 'With a turn whose reward is',
    values: [
      ['positive', 'above 0'],
      ['negative', 'below 0'],
      ['none', 'not given'],
    ],
  },
  { name: 'reason', label: 'With a turn not trained on because', values: UNTRAINED_CODES },
] as const

const queryOf = (form: FormData): string => {
  const query = new URLSearchParams()
  for (const [name, value] of form) if (typeof value === 'string' && value.trim() !== '') query.set(name, value.trim())
  return query.toString()
}

/** Of one request. */
const MOST = 50

type Beginnings = Readonly<Record<string, string>>

/** What was asked first in each session, as far as it is read; nothing without the right to texts. */
const useBeginnings = (rows: readonly SessionRow[], text: boolean): { known: Beginnings; busy: boolean } => {
  const [known, setKnown] = useState<Beginnings>({})
  const [read, setRead] = useState('')
  const wanted = rows.map(({ session_id: id }) => id).slice(-MOST)
  const query = wanted.map((id) => `session=${encodeURIComponent(id)}`).join('&')
  useEffect(() => {
    if (!text || query === '') return undefined
    const ended = new AbortController()
    get<Record<string, string>>(`/v1/dashboard/beginnings?${query}`, ended.signal)
      .then((found) => setKnown((last) => ({ ...last, ...found })))
      // The table says the rest.
      .catch(() => undefined)
      .finally(() => setRead(query))
    return () => ended.abort()
  }, [query, text])
  return { known, busy: text && read !== query }
}

const Name = ({ row, begins }: { row: SessionRow; begins: Beginnings }): View => html`
  <a href=${`#/sessions/${encodeURIComponent(row.session_id)}`}><code>${shortId(row.session_id)}</code></a>
  ${row.parent_session_id ? html` <span class="tag">subagent</span>` : null}
  ${row.discarded ? html` <span class="tag">aborted</span>` : null}
  ${begins[row.session_id] ? html`<div class="begins">${begins[row.session_id]}</div>` : null}
`

const SessionTable = ({ rows, text }: { rows: readonly SessionRow[]; text: boolean }): View => {
  const { known: begins, busy } = useBeginnings(rows, text)
  return html`<div aria-busy=${busy ? 'true' : undefined}><${Table} caption="Sessions" rows=${rows} all=${true}
    empty="No session matches." columns=${[
      { name: 'Session', of: (row: SessionRow) => html`<${Name} row=${row} begins=${begins} />` },
      {
        name: 'Began',
        of: (row: SessionRow) => html`<span class="nowrap" title=${row.started_at}>${time(row.started_at)}</span>`,
      },
      { name: 'Last', of: (row: SessionRow) => html`<span class="nowrap">${ago(row.last_at, Date.now())}</span>` },
      {
        name: 'Turns',
        numeric: true,
        of: (row: SessionRow) => `${count(row.turns)}${row.side_turns ? ` + ${row.side_turns} side` : ''}`,
        title: 'Answers of the conversation; side: requests of the agent for itself (titles, compactions, memories)',
      },
      {
        name: 'Reward',
        numeric: true,
        of: (row: SessionRow) => reward(row.outcome ?? row.reward),
        title: 'Of the episode, or the mean of its turns’ scores',
      },
      { name: 'Versions', of: (row: SessionRow) => (row.versions ?? []).join(', '), title: 'Those that answered' },
      { name: 'Agent', of: (row: SessionRow) => agentsWords(row.agents), title: 'The program that sent the requests' },
      { name: 'API', of: (row: SessionRow) => DIALECTS[row.dialect] ?? row.dialect },
      { name: 'Key', of: (row: SessionRow) => row.key_id ?? '–', title: 'The id of the API key; – without keys' },
      {
        name: 'Person',
        of: (row: SessionRow) =>
          html`<a href=${`#/sessions?subject=${encodeURIComponent(row.subject)}`}>
          <code>${shortId(row.subject)}</code></a>`,
        title: 'The end of their id, made from the request’s user, its key, or its session',
      },
    ]} /></div>`
}

export const SessionsPage = ({ query }: PageProps): View => {
  const may = useContext(SessionContext)?.may?.text ?? false
  const text = query.get('text') ?? ''
  return html`
    <h1>Sessions</h1>
    ${may ? html`<${SearchForm} text=${text} />` : null}
    ${text === '' ? html`<${Filtered} query=${query} text=${may} />` : html`<${TextHits} text=${text} />`}
  `
}

const Filtered = ({ query, text }: { query: URLSearchParams; text: boolean }): View => {
  const filter = query.toString()
  const first = useData<Page>(`sessions${filter ? `?${filter}` : ''}`)
  const [more, setMore] = useState<Page[]>([])
  const [error, setError] = useState<ApiError | null>(null)
  useEffect(() => setMore([]), [filter, first.data])
  const last = more.at(-1) ?? first.data
  const next = last?.next ?? null
  const load = async (): Promise<void> => {
    if (!next) return
    setError(null)
    try {
      const after = new URLSearchParams(query)
      after.set('at', next.at)
      after.set('after', next.id)
      const page = await get<Page>(`/v1/dashboard/sessions?${after.toString()}`)
      setMore((pages) => [...pages, page])
    } catch (failure) {
      setError(failure as ApiError)
    }
  }
  const submit = (event: Event): void => {
    event.preventDefault()
    const wanted = queryOf(new FormData(event.target as HTMLFormElement))
    location.hash = `#/sessions${wanted ? `?${wanted}` : ''}`
  }
  return html`
    <details class="filter-box" open=${filter !== '' || matchMedia('(min-width: 721px)').matches}>
    <summary>${filter === '' ? 'Filters' : `Filters (${query.size})`}</summary>
    <form class="filters" onSubmit=${submit} key=${filter}>
      ${FIELDS.map(
        ({ name, label, type }) => html`<label>${label}<input name=${name} type=${type}
        value=${query.get(name) ?? ''} /></label>`,
      )}
      ${CHOICES.map(
        ({ name, label, values }) => html`<label>${label}<select name=${name}><option
        value="">any</option>${values.map(
          ([value, text]) => html`<option value=${value} selected=${query.get(name) === value}>${text}</option>`,
        )}</select></label>`,
      )}
      <div class="row end"><a href="#/sessions">Clear</a><button class="primary">Filter</button>
        <button type="button" onClick=${first.reload}>Refresh</button></div>
    </form>
    </details>
    <${Await} from=${first} of=${(page: Page) => html`
      <${SessionTable} rows=${[page, ...more].flatMap(({ rows }) => rows)} text=${text} />
      ${error ? html`<${ErrorNote} error=${error} />` : null}
      ${next ? html`<p><button onClick=${load}>Older sessions</button></p>` : null}
    `} />
  `
}
