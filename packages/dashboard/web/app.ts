/** The frame of all pages: navigation, the state of the connection, signing in, and the page of the address. */
import { render } from 'preact'
import { useContext, useEffect, useRef, useState } from 'preact/hooks'
import { readSession, signIn, signOut, type ApiError, type Session } from './api.ts'
import { html, type View } from './html.ts'
import { useLivePart } from './live.ts'
import { FirstVersion } from './parts/first-version.ts'
import { ErrorNote } from './parts/state.ts'
import { SessionContext } from './session-context.ts'
import { ROUTES } from './routes.ts'

type Address = { path: string; query: URLSearchParams }

const addressOf = (hash: string): Address => {
  const [path = '/', query = ''] = hash.replace(/^#/, '').split('?')
  return { path: path.startsWith('/') ? path : '/', query: new URLSearchParams(query) }
}

/** The code of a one-time link, which leaves the address before it can be copied with it. */
const codeOf = (hash: string): string | null => {
  const code = /^#code=([\w-]+)$/.exec(hash)?.[1] ?? null
  if (code !== null) history.replaceState(null, '', '#/')
  return code
}

const SignIn = ({ error, done }: { error: ApiError | null; done: () => void }): View => {
  const [key, setKey] = useState('')
  const [failed, setFailed] = useState<ApiError | null>(error)
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    try {
      await signIn({ key: key.trim() })
      done()
    } catch (failure) {
      setFailed(failure as ApiError)
    }
  }
  return html`
    <form class="card narrow" onSubmit=${submit}>
      <h1>Sign in</h1>
      <p>On the gateway’s machine, <code>npx instar open</code> prints a link that signs you in. Elsewhere, use an API
        key with the scope <code>read</code> or <code>admin</code>.</p>
      <label>API key <input type="password" autocomplete="off" value=${key}
        onInput=${(event: Event) => setKey((event.target as HTMLInputElement).value)} required /></label>
      ${failed ? html`<${ErrorNote} error=${failed} />` : null}
      <div class="row end"><button class="primary">Sign in</button></div>
    </form>
  `
}

const STATES = { connecting: 'Connecting', live: 'Live', lost: 'Connection lost, trying again', paused: 'Paused' }

const Connection = (): View => {
  const state = useLivePart((live) => live.state)
  return html`<span class=${`connection ${state}`} role="status">${STATES[state]}</span>`
}

const Frame = ({ address }: { address: Address }): View => {
  const session = useContext(SessionContext)!
  const route = ROUTES.find(({ pattern }) => pattern.test(address.path))
  const params = (route?.pattern.exec(address.path) ?? []).slice(1).map((param) => decodeURIComponent(param))
  const shown = useRef(address.path)
  useEffect(() => {
    // A page that has just been loaded leaves the focus at its beginning, where the link to skip is.
    if (shown.current !== address.path) document.querySelector('main')?.focus({ preventScroll: true })
    shown.current = address.path
    scrollTo(0, 0)
    // On a phone the row of pages is wider than the window.
    document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [address.path])
  return html`
    <a class="skip" href="#main" onClick=${(event: Event) => {
      event.preventDefault()
      document.querySelector('main')?.focus()
    }}>Skip to the page</a>
    <header>
      <a class="brand" href="#/">Instar</a>
      <nav aria-label="Pages">
        ${ROUTES.filter(({ nav }) => nav !== undefined).map(
          ({ path, nav }) => html`<a href=${`#${path}`}
          aria-current=${route?.path === path ? 'page' : undefined}>${nav}</a>`,
        )}
      </nav>
      <span class="grow"></span>
      <${Connection} />
      ${
        session.signed_in
          ? html`<button class="small" onClick=${async () => {
              await signOut()
              location.reload()
            }}>Sign out</button>`
          : null
      }
    </header>
    <main id="main" tabindex="-1">
      <${FirstVersion} />
      ${
        route
          ? html`<${route.page} key=${address.path} params=${params} query=${address.query} />`
          : html`<h1>No such page</h1><p><a href="#/">To what happens now</a></p>`
      }
    </main>
  `
}

const App = (): View => {
  const [address, setAddress] = useState(() => addressOf(location.hash))
  const [session, setSession] = useState<Session | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const begin = async (code: string | null): Promise<void> => {
    let refused: ApiError | null = null
    try {
      if (code !== null) await signIn({ code })
    } catch (failure) {
      refused = failure as ApiError
    }
    try {
      setSession(await readSession())
      setError(refused)
    } catch (failure) {
      setError(failure as ApiError)
    }
  }
  useEffect(() => {
    void begin(codeOf(location.hash))
    const changed = (): void => {
      const code = codeOf(location.hash)
      if (code !== null) void begin(code)
      setAddress(addressOf(location.hash))
    }
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [])
  if (session === null)
    return error
      ? html`<main><${ErrorNote} error=${error} retry=${() => void begin(null)} /></main>`
      : html`<main aria-busy="true"></main>`
  if (session.may === null) return html`<main><${SignIn} error=${error} done=${() => void begin(null)} /></main>`
  return html`
    <${SessionContext.Provider} value=${session}>
      ${error ? html`<${ErrorNote} error=${error} />` : null}
      <${Frame} address=${address} />
    <//>
  `
}

render(html`<${App} />`, document.getElementById('app')!)
