/** Thumbs and a comment for one turn. */
import { useState } from 'preact/hooks'
import { post, type ApiError } from '../api.ts'
import { html, type View } from '../html.ts'
import { ErrorNote } from './state.ts'

export const Feedback = ({ turn }: { turn: string }): View => {
  const [given, setGiven] = useState<boolean | null>(null)
  const [comment, setComment] = useState('')
  const [open, setOpen] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const give = async (value: boolean): Promise<void> => {
    setError(null)
    try {
      await post('/v1/feedback', { turn_id: turn, value, ...(comment.trim() ? { comment: comment.trim() } : {}) })
      setGiven(value)
      setOpen(false)
    } catch (failure) {
      setError(failure as ApiError)
    }
  }
  return html`
    <div class="feedback row">
      <button class="small" aria-pressed=${given === true} title="Good answer" aria-label="Good answer"
        onClick=${() => give(true)}>👍</button>
      <button class="small" aria-pressed=${given === false} title="Bad answer" aria-label="Bad answer"
        onClick=${() => give(false)}>👎</button>
      ${
        open
          ? html`<label class="row grow">Comment <input class="grow" value=${comment} maxlength="500"
            onInput=${(event: Event) => setComment((event.target as HTMLInputElement).value)}
              placeholder="What would be better? A thumb sends it" /></label>`
          : html`<button class="link" onClick=${() => setOpen(true)}>Comment</button>`
      }
      ${given === null ? null : html`<span class="quiet" role="status">Recorded</span>`}
      ${error ? html`<${ErrorNote} error=${error} />` : null}
    </div>
  `
}
