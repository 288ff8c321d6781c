/** A dialog that says what an action will do, asks for a reason, and shows the gateway's error if it fails. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { post, postLong, type ApiError } from '../api.ts'
import { html, type Children, type View } from '../html.ts'
import { ErrorNote } from './state.ts'

export type Action = {
  title: string
  what: Children
  verb: string
  command: string
  body: Readonly<Record<string, unknown>>
  /** It takes a while, and has a result to show. */
  result?: (reply: Readonly<Record<string, unknown>>) => string
}

const WHO = { 'x-instar-who': 'dashboard' }

export const Confirm = ({ action, done }: { action: Action; done: (happened: boolean) => void }): View => {
  const dialog = useRef<HTMLDialogElement>(null)
  const [why, setWhy] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const [result, setResult] = useState<string | null>(null)
  useEffect(() => {
    const opener = document.activeElement as HTMLElement | null
    const own = dialog.current!
    own.showModal()
    return () => {
      // A dialog that is taken away gives the focus back to nothing.
      own.close()
      opener?.focus()
    }
  }, [])
  const run = async (event: Event): Promise<void> => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      const [path, body] = [`/admin/${action.command}`, { ...action.body, why: why.trim() }]
      if (action.result) {
        setResult(action.result(await postLong(path, body, WHO)))
        return
      }
      await post(path, body, WHO)
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
        ${
          result !== null
            ? null
            : html`<label>Reason <input value=${why} maxlength="200" required autofocus
                onInput=${(event: Event) => setWhy((event.target as HTMLInputElement).value)} /></label>
              <p class="quiet">The reason is on the log with the change, for everybody to read.</p>`
        }
        ${result === null ? null : html`<p class="note" role="status">${result}</p>`}
        ${error ? html`<${ErrorNote} error=${error} />` : null}
        <div class="row end">
          ${
            result === null
              ? html`<button type="button" onClick=${() => done(false)}>Cancel</button>
                <button type="submit" class="primary" disabled=${busy}>${busy ? 'Working…' : action.verb}</button>`
              : html`<button type="button" class="primary" onClick=${() => done(true)}>Close</button>`
          }
        </div>
      </form>
    </dialog>
  `
}
