/** Before the first turn: how an agent connects, and a chat to try it. */
import { useContext, useState } from 'preact/hooks'
import { post, type ApiError } from '../api.ts'
import { html, type View } from '../html.ts'
import { ErrorNote } from '../parts/state.ts'
import { SessionContext } from '../session-context.ts'
import { Talk } from './talk.ts'

/** In the place of a key that is not known. */
const PLACE = 'YOUR_KEY'

const authorization = (key: string | null): string => (key === null ? '' : ` -H 'authorization: Bearer ${key}'`)

/** `key`: null where requests need none. */
const snippets = (
  base: string,
  model: string,
  key: string | null,
): readonly (readonly [name: string, text: string])[] => [
  [
    'curl',
    [
      `curl ${base}/v1/chat/completions -H 'content-type: application/json'${authorization(key)} \\`,
      `  -d '{"model": "${model}", "messages": [{"role": "user", "content": "What is the capital of France?"}]}'`,
    ].join('\n'),
  ],
  [
    'OpenAI SDK (Python)',
    [
      'from openai import OpenAI',
      `client = OpenAI(base_url="${base}/v1", api_key="${key ?? 'none'}")`,
      `client.chat.completions.create(model="${model}", messages=[{"role": "user", "content": "Hello"}])`,
    ].join('\n'),
  ],
  [
    'OpenAI SDK (JavaScript)',
    [
      `import OpenAI from 'openai'`,
      `const client = new OpenAI({ baseURL: '${base}/v1', apiKey: '${key ?? 'none'}' })`,
      `const messages = [{ role: 'user', content: 'Hello' }]`,
      `await client.chat.completions.create({ model: '${model}', messages })`,
    ].join('\n'),
  ],
  ['Claude Code', `ANTHROPIC_BASE_URL=${base} ANTHROPIC_AUTH_TOKEN=${key ?? 'none'} claude --model ${model}`],
  ['Any agent', `OPENAI_BASE_URL=${base}/v1\nOPENAI_API_KEY=${key ?? 'none'}`],
]

/** How to get a key, or one that is created here, which no later page shows again. */
const KeyNote = ({ token, created }: { token: string | null; created: (token: string) => void }): View => {
  const session = useContext(SessionContext)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const create = async (): Promise<void> => {
    setBusy(true)
    setError(null)
    try {
      created((await post<{ token: string }>('/admin/agent-key', { name: 'from the dashboard' })).token)
    } catch (failure) {
      setError(failure as ApiError)
    } finally {
      setBusy(false)
    }
  }
  if (!session?.keys)
    return html`<p class="quiet">Requests from this machine need no API key, and one that is sent is not read.</p>`
  if (token !== null)
    return html`<p class="note" role="status">The key <code>${token}</code> is in the snippets. It is shown only now:
      copy it before you leave this page. It may send requests and feedback, and its turns are trained on.</p>`
  if (!session.may?.actions)
    return html`<p class="note">Requests need an API key: put yours in the place of <code>${PLACE}</code>. The operator
      creates one with <code>npx instar keys add NAME</code>, or here in a session with the scope admin
        (<code>npx instar open</code>).</p>`
  return html`<div class="note"><p>Requests need an API key: put yours in the place of <code>${PLACE}</code>, or</p>
    <p><button disabled=${busy} onClick=${create}>Create a key for this</button></p>
    ${error ? html`<${ErrorNote} error=${error} />` : null}</div>`
}

export const Connect = ({ model }: { model: string }): View => {
  const base = location.origin
  const session = useContext(SessionContext)
  const [token, setToken] = useState<string | null>(null)
  const key = session?.keys ? (token ?? PLACE) : null
  return html`
    <h1>No conversation yet</h1>
    <p>Point an agent at <code>${base}/v1</code>, or talk to the model below. Each answer is written to the log; your
      next message says how good it was, and after 16 scored turns the model learns from them.</p>
    <div class="cards">
      <section class="card wide"><h2>Connect an agent</h2>
        <${KeyNote} token=${token} created=${setToken} />
        ${snippets(base, model, key).map(
          ([name, text], i) => html`<details open=${i === 0}><summary>${name}</summary><pre>${text}</pre></details>`,
        )}
      </section>
      <section class="card wide"><h2>Or talk to it here</h2><${Talk} model=${model} /></section>
    </div>
  `
}
