/** Joins texts that arrived together: each delta has a fixed cost on its way to the client. */
import { EMPTY_DELTA, type Delta } from './wire.ts'

const isText = ({ tokens, text, finish, usage, error }: Delta): boolean =>
  text !== '' && tokens.length === 0 && finish === null && usage === null && error === null

/** Same text, fewer deltas. The last text stays separate: the end of an answer waits for the log, the rest does not. */
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
