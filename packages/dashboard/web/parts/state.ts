/** What a page shows while it has no data: loading, an error with what to do, or that there is nothing yet. */
import type { ApiError, Loaded } from '../api.ts'
import { html, type Children, type View } from '../html.ts'

const WHAT_TO_DO: Readonly<Record<string, string>> = {
  unreachable: 'The page tries again as soon as the gateway answers.',
  not_available:
    'Without PostgreSQL, or DATABASE_URL at the gateway, there is no history here; Now, Compare and Talk work.',
  postgres_failed: 'The read model is away. Serving and learning go on without it; `instar doctor` says what it lacks.',
  missing_scope: 'Ask the operator for a key with this scope, or open a session with `instar open`.',
  invalid_api_key: 'The session has ended. Run `instar open`, or sign in with an API key.',
  unknown_turn: 'A new turn appears here within a second or two of its answer.',
}

export const ErrorNote = ({ error, retry }: { error: ApiError; retry?: () => void }): View => html`
  <div class="note error" role="alert">
    <strong>${error.message}</strong> <span class="quiet">${error.code}</span>
    ${WHAT_TO_DO[error.code] ? html`<p>${WHAT_TO_DO[error.code]}</p>` : null}
    ${retry ? html`<button onClick=${retry}>Try again</button>` : null}
  </div>
`

export const Empty = ({ children }: { children?: Children }): View => html`<p class="note quiet">${children}</p>`

type AwaitProps<T> = { from: Loaded<T>; of: (data: T) => Children; title?: string }

/**
 * Shows the data with `of`; the last data stays while the next is read, and beside an error. `title` heads what has no
 * data.
 */
export function Await<T>({ from, of, title }: AwaitProps<T>): View {
  if (from.data !== null)
    return html`${from.error ? html`<${ErrorNote} error=${from.error} retry=${from.reload} />` : null}${of(from.data)}`
  const heading = title ? html`<h1>${title}</h1>` : null
  if (from.error) return html`${heading}<${ErrorNote} error=${from.error} retry=${from.reload} />`
  return html`${heading}<p class="note quiet" aria-busy="true">Loading…</p>`
}
