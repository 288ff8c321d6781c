/** Scores by person or by API key, those with most first; more are read when asked for. */
import { useState } from 'preact/hooks'
import { get, type ApiError } from '../api.ts'
import { ago, count, percent, plainName, reward, shortId } from '../format.ts'
import { html, type View } from '../html.ts'
import type { CallerPage, CallerRow } from '../rows.ts'
import { ErrorNote } from './state.ts'
import { Table } from './table.ts'

type CallersProps = { by: 'subject' | 'key'; title: string; about: string; first: CallerPage }

/** As text; people by the end of their names, as in the table. */
export const callerName = (by: CallersProps['by'], name: string | null): string =>
  name === null ? 'without a key' : plainName(by === 'key' ? name : shortId(name))

const name = (by: CallersProps['by'], row: CallerRow): View =>
  row.name === null
    ? html`<span class="quiet">without a key</span>`
    : html`<a href=${`#/sessions?${by}=${encodeURIComponent(row.name)}`} title=${row.name}><code>${
        by === 'key' ? row.name : shortId(row.name)
      }</code></a>`

export const Callers = ({ by, title, about, first }: CallersProps): View => {
  const [more, setMore] = useState<CallerPage[]>([])
  const [error, setError] = useState<ApiError | null>(null)
  const pages = [first, ...more]
  const { next } = pages.at(-1)!
  const load = async (): Promise<void> => {
    setError(null)
    try {
      const page = await get<CallerPage>(`/v1/dashboard/callers?by=${by}&after=${next}`)
      setMore((all) => [...all, page])
    } catch (failure) {
      setError(failure as ApiError)
    }
  }
  return html`
    <section class="card wide"><h2>${title}</h2><p class="quiet">${about}</p>
      <${Table} caption=${title} rows=${pages.flatMap(({ rows }) => rows)} all=${true} columns=${[
        { name: by === 'key' ? 'Key' : 'Person', of: (row: CallerRow) => name(by, row) },
        { name: 'Sessions', numeric: true, of: (row: CallerRow) => count(row.sessions) },
        { name: 'Turns', numeric: true, of: (row: CallerRow) => count(row.count) },
        { name: 'Mean reward', numeric: true, of: (row: CallerRow) => reward(row.reward) },
        {
          name: 'Without a score',
          numeric: true,
          of: (row: CallerRow) => percent(1 - row.scored / row.count),
          title: 'Share of these turns that no judge scored',
        },
        {
          name: 'With a hint',
          numeric: true,
          of: (row: CallerRow) => (row.scored === 0 ? '–' : percent(row.hinted / row.scored)),
          title: 'Share of the scored turns whose reaction said what would have been better',
        },
        {
          name: 'Last',
          of: (row: CallerRow) => html`<span title=${row.last_at}>${ago(row.last_at, Date.now())}</span>`,
        },
      ]} />
      ${error ? html`<${ErrorNote} error=${error} />` : null}
      ${next === null ? null : html`<p><button onClick=${load}>More</button></p>`}
    </section>
  `
}
