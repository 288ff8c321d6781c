/** Conversations, newest first, with filters that stay in the address. */
import { useContext, useEffect, useState } from 'preact/hooks'
import { get, useData, type ApiError } from '../api.ts'
import { ago, count, reward, shortId, time } from '../format.ts'
import { html, type View } from '../html.ts'
import { Await, ErrorNote } from '../parts/state.ts'
import { Table } from '../parts/table.ts'
import { SearchForm, TextHits } from '../parts/text-search.ts'
import type { Next, SessionRow } from '../rows.ts'
import type { PageProps } from '../page.ts'
import { SessionContext } from '../session-context.ts'

type Page = { rows: SessionRow[]; next: Next }

const FIELDS = [
  { name: 'id', label: 'Session or turn id begins with', type: 'text' },
  { name: 'subject', label: 'Person (subject)', type: 'text' },
  { name: 'key', label: 'API key id', type: 'text' },
  { name: 'version', label: 'Answered by version', type: 'number' },
  { name: 'reason', label: 'Not trained, reason code', type: 'text' },
] as const

const CHOICES = [
  { name: 'dialect', label: 'API', values: { chat: 'Chat Completions', responses: 'Responses', messages: 'Messages' } },
  {
    name: 'source',
    label: 'Recognised by',
    values: {
      header: 'header',
      agent: 'agent’s id',
      minted: 'minted id',
      answer: 'earlier answer',
      prompt: 'prompt',
      fingerprint: 'fingerprint',
    },
  },
  { name: 'reward', label: 'Reward', values: { positive: 'positive', negative: 'negative', none: 'none' } },
] as const

const queryOf = (form: FormData): string => {
  const query = new URLSearchParams()
  for (const [name, value] of form) if (typeof value === 'string' && value.trim() !== '') query.set(name, value.trim())
  return query.toString()
}

export const SessionTable = ({ rows }: { rows: readonly SessionRow[] }): View => html`
  <${Table} caption="Sessions" rows=${rows} empty="No session matches." columns=${[
    {
      name: 'Session',
      of: (row: SessionRow) =>
        html`<a href=${`#/sessions/${encodeURIComponent(row.session_id)}`}><code>${shortId(row.session_id)}</code></a>${row.parent_session_id ? html` <span class="tag">subagent</span>` : null}${row.discarded ? html` <span class="tag">aborted</span>` : null}`,
    },
    { name: 'Began', of: (row: SessionRow) => html`<span title=${row.started_at}>${time(row.started_at)}</span>` },
    { name: 'Last', of: (row: SessionRow) => ago(row.last_at, Date.now()) },
    {
      name: 'Turns',
      numeric: true,
      of: (row: SessionRow) => `${count(row.turns)}${row.side_turns ? ` + ${row.side_turns}` : ''}`,
      title: 'Of the conversation, and side requests of the agent',
    },
    {
      name: 'Reward',
      numeric: true,
      of: (row: SessionRow) => reward(row.outcome ?? row.reward),
      title: 'Of the episode, or the mean of its turns’ scores',
    },
    { name: 'Versions', of: (row: SessionRow) => (row.versions ?? []).join(', ') },
    { name: 'API', of: (row: SessionRow) => row.dialect },
    { name: 'Key', of: (row: SessionRow) => row.key_id ?? '–' },
    {
      name: 'Person',
      of: (row: SessionRow) =>
        html`<a href=${`#/sessions?subject=${encodeURIComponent(row.subject)}`}><code>${shortId(row.subject)}</code></a>`,
    },
  ]} />
`

export const SessionsPage = ({ query }: PageProps): View => {
  const session = useContext(SessionContext)
  const text = query.get('text') ?? ''
  return html`
    <h1>Sessions</h1>
    ${session?.may?.text ? html`<${SearchForm} text=${text} />` : null}
    ${text === '' ? html`<${Filtered} query=${query} />` : html`<${TextHits} text=${text} />`}
  `
}

const Filtered = ({ query }: { query: URLSearchParams }): View => {
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
    const text = queryOf(new FormData(event.target as HTMLFormElement))
    location.hash = `#/sessions${text ? `?${text}` : ''}`
  }
  return html`
    <form class="filters" onSubmit=${submit} key=${filter}>
      ${FIELDS.map(
        ({ name, label, type }) => html`<label>${label}<input name=${name} type=${type}
        value=${query.get(name) ?? ''} /></label>`,
      )}
      ${CHOICES.map(
        ({ name, label, values }) => html`<label>${label}<select name=${name}><option
        value="">any</option>${Object.entries(values).map(
          ([value, text]) => html`<option value=${value} selected=${query.get(name) === value}>${text}</option>`,
        )}</select></label>`,
      )}
      <div class="row end"><a href="#/sessions">Clear</a><button class="primary">Filter</button>
        <button type="button" onClick=${first.reload}>Refresh</button></div>
    </form>
    <${Await} from=${first} of=${(page: Page) => html`
      <${SessionTable} rows=${[page, ...more].flatMap(({ rows }) => rows)} />
      ${error ? html`<${ErrorNote} error=${error} />` : null}
      ${next ? html`<p><button onClick=${load}>Older sessions</button></p>` : null}
    `} />
  `
}
