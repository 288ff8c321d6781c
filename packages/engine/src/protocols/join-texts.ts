/** Joins the texts of one network read, since each delta that is sent to the client has a fixed cost. */
import { EMPTY_DELTA, type Delta } from './wire.ts'

const isText = ({ tokens, text, finish, usage, error }: Delta): boolean =>
  text !== '' && tokens.length === 0 && finish === null && usage === null && error === null

/**
 * Returns the same text in fewer deltas. The last text stays separate: the gateway sends an answer's end only after it
 * is on the log, and the text before it at once.
 */
export const joinTexts = (deltas: readonly Delta[]): Delta[] => {
  const last = deltas.findLastIndex(isText)
  const joined: Delta[] = []
  let text = ''
  const flush = (): void => {
    if (text !== '') joined.push({ ...EMPTY_DELTA, text })
    text = ''
  }
  for (const [at, delta] of deltas.entries()) {
    if (at !== last && isText(delta)) text += delta.text
    else {
      flush()
      joined.push(delta)
    }
  }
  flush()
  return joined
}
