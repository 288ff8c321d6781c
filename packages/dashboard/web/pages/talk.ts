/** A chat with the model, with a thumb under each answer. Its turns are trained on, as those of any client. */
import { useRef, useState } from 'preact/hooks'
import type { ApiError } from '../api.ts'
import { html, type View } from '../html.ts'
import { useLive } from '../live.ts'
import { ErrorNote } from '../parts/state.ts'
import { answer } from '../stream.ts'
import { Feedback } from '../parts/feedback.ts'

type Said = { role: 'user' | 'assistant'; content: string; turn?: string; version?: number }

const speaker = ({ role, version }: Said): string =>
  role === 'user' ? 'You' : version === undefined ? 'Model' : `Model, version ${version}`

export const Talk = ({ model }: { model: string }): View => {
  const [said, setSaid] = useState<Said[]>([])
  const [text, setText] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const session = useRef(crypto.randomUUID())
  const { now } = useLive()
  const send = async (event: Event): Promise<void> => {
    event.preventDefault()
    const content = text.trim()
    if (content === '' || busy) return
    const asked: Said[] = [...said, { role: 'user', content }]
    setText('')
    setBusy(true)
    setError(null)
    setSaid([...asked, { role: 'assistant', content: '' }])
    try {
      const reply = await answer(
        { model, messages: asked.map(({ role, content: words }) => ({ role, content: words })) },
        { 'x-session-id': session.current },
        (soFar) => setSaid([...asked, { role: 'assistant', content: soFar }]),
      )
      setSaid([
        ...asked,
        {
          role: 'assistant',
          content: reply.text,
          ...(reply.turn ? { turn: reply.turn } : {}),
          ...(reply.version === null ? {} : { version: reply.version }),
        },
      ])
    } catch (failure) {
      setError(failure as ApiError)
      setSaid(said)
      setText(content)
    } finally {
      setBusy(false)
    }
  }
  const versions = said.flatMap(({ version }) => version ?? [])
  const changed = now && versions.length > 0 && now.head !== versions.at(-1)
  return html`
    <div class="talk">
      ${
        changed
          ? html`<p class="note" role="status">Version ${now.head} is new: <a
        href=${`#/versions/${now.head}`}>what it learned</a>. The next answer comes from it.</p>`
          : null
      }
      <ol class="messages" aria-live="polite" aria-label="Conversation">
        ${said.map(
          (one) => html`<li class=${`message ${one.role}`}><span class="who">${speaker(one)}</span>
          <div class="text">${one.content || '…'}</div>
          ${one.turn ? html`<${Feedback} turn=${one.turn} />` : null}</li>`,
        )}
      </ol>
      ${error ? html`<${ErrorNote} error=${error} />` : null}
      <form class="row" onSubmit=${send}>
        <label class="hidden" for="talk-text">Message</label>
        <input id="talk-text" class="grow" value=${text}
          onInput=${(event: Event) => setText((event.target as HTMLInputElement).value)}
            placeholder="Ask something; then say how it was" autocomplete="off" />
        <button class="primary" disabled=${busy}>${busy ? 'Answering…' : 'Send'}</button>
      </form>
      <p class="quiet">${
        session.current
          ? html`<button class="link" type="button" onClick=${() => {
              session.current = crypto.randomUUID()
              setSaid([])
            }}>New conversation</button>`
          : null
      }</p>
    </div>
  `
}

export const TalkPage = (): View => {
  const { now } = useLive()
  return html`<h1>Talk</h1><p class="quiet">Your next message, or a thumb, says how good an answer was. Sixteen scored
    turns make an update.</p>${
      now
        ? html`<${Talk} model=${now.policy} />`
        : html`<p class="note quiet" aria-busy="true">Waiting for the gateway…</p>`
    }`
}
