/** A dialog that says what an action will do, asks for a reason, and shows the gateway's error if it fails. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { post, type ApiError } from '../api.ts'
import { html, type Children, type View } from '../html.ts'
import { ErrorNote } from './state.ts'

export type Action = {
  title: string
  what: Children
  verb: string
  command: string
  body: Readonly<Record<string, unknown>>
}

export const Confirm = ({ action, done }: { action: Action; done: (happened: boolean) => void }): View => {
  const dialog = useRef<HTMLDialogElement>(null)
  const [why, setWhy] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  useEffect(() => dialog.current?.showModal(), [])
  const run = async (event: Event): Promise<void> => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      await post(`/admin/${action.command}`, { ...action.body, why: why.trim() }, { 'x-instar-who': 'dashboard' })
      done(true)
    } catch (failure) {
      setError(failure as ApiError)
      setBusy(false)
    }
  }
  return html`
    <dialog ref=${dialog} aria-labelledby="confirm-title" onCancel=${() => done(false)}>
      <form onSubmit=${run}>
        <h2 id="confirm-title">${action.title}</h2>
        <div>${action.what}</div>
        <label>Reason <input value=${why} onInput=${(event: Event) => setWhy((event.target as HTMLInputElement).value)} maxlength="200" required autofocus /></label>
        <p class="quiet">The reason is on the log with the change, for everybody to read.</p>
        ${error ? html`<${ErrorNote} error=${error} />` : null}
        <div class="row end">
          <button type="button" onClick=${() => done(false)}>Cancel</button>
          <button type="submit" class="primary" disabled=${busy}>${busy ? 'Working…' : action.verb}</button>
        </div>
      </form>
    </dialog>
  `
}
