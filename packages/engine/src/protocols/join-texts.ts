/** Texts that arrived in one piece of the wire go on as one: each costs as much on its way as all of them. */
import { EMPTY_DELTA, type Delta } from './wire.ts'

const isText = ({ tokens, text, finish, usage, error }: Delta): boolean =>
  text !== '' && tokens.length === 0 && finish === null && usage === null && error === null

/** The same text; the last stays by itself, since an answer's last text waits for the log and nothing before it has to. */
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
