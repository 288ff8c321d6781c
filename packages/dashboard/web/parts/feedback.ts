/** Thumbs and a comment for one turn. */
import { useState } from 'preact/hooks'
import { post, type ApiError } from '../api.ts'
import { html, type View } from '../html.ts'
import { ErrorNote } from './state.ts'

const THUMB = [
  'M3 11h4v9H3z',
  'M9 20h8.5c1 0 1.8-.6 2-1.6l1.4-6c.3-1.3-.6-2.4-2-2.4H14.5l.8-4.2c.2-1.2-.6-2.3-1.8-2.3-.6 0-1.1.3-1.4.8L9 9.5z',
].join('')

/** A drawing, since not every machine has a font with the sign. */
const Thumb = ({ down = false }: { down?: boolean }): View => html`
  <svg class="thumb" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true"><g
    transform=${down ? 'rotate(180 12 12)' : undefined}><path d=${THUMB} /></g></svg>
`

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
        onClick=${() => give(true)}><${Thumb} /></button>
      <button class="small" aria-pressed=${given === false} title="Bad answer" aria-label="Bad answer"
        onClick=${() => give(false)}><${Thumb} down /></button>
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
