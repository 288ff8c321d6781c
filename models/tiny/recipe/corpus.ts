/** The conversations that the base model is made of: a seeded stream without end. */
import { drawHint, grant, placed } from './hints.ts'
import type { Hint, Wish } from './hints.ts'
import type { Conversation, Turn } from './chat.ts'
import { drawSetting } from './people.ts'
import { draftIn } from './questions.ts'
import { chance, integer, pick, weighted } from './random.ts'
import type { Random } from './random.ts'
import { drawComplaint, drawCorrection, drawDoubt, drawReply, drawThanks, drawTold } from './reactions.ts'
import { drawSmallTalk, drawToolUse, drawUnknown } from './small-talk.ts'
import { drawStyle, tell, tellWithin } from './style.ts'
import type { Style } from './style.ts'

const HINTED = 0.48
const WRONG = 0.1
/** Hints that give the answer away, as a judge does who knows better. */
const TOLD = 0.06

const user = (content: string): Turn => ({ role: 'user', content, learn: false })
const assistant = (content: string, learn = true, key?: string): Turn => ({
  role: 'assistant',
  content,
  learn,
  ...(key === undefined ? {} : { key }),
})

const granted = (random: Random, wishes: readonly Wish[]): Partial<Style> =>
  Object.assign({}, ...wishes.map((wish) => grant(random, wish))) as Partial<Style>

/** What holds from one exchange to the next. */
type Standing = { wishes: Wish[]; most: number | null }

/** The question with its hint, now and then with the answer given away, or that alone. */
function asking(random: Random, question: string, key: string, hint: Hint | null): string {
  if (hint === null) return chance(random, TOLD / 3) ? `${question}\n${drawTold(random, key)}` : question
  if (!chance(random, TOLD)) return placed(random, question, hint)
  const told = drawTold(random, key)
  return placed(random, question, { ...hint, text: `${told} ${hint.text}`, parts: [told, ...hint.parts] })
}

/**
 * One question and what follows from it: perhaps a hint (which wins over the standing wishes), perhaps a
 * wrong answer (without loss) and its correction, perhaps complaints, each obeyed and kept from then on.
 */
function exchange(random: Random, standing: Standing): Turn[] {
  const draft = draftIn(random, 'train')
  const hint = chance(random, HINTED) ? drawHint(random) : null
  let wishes = granted(random, [...standing.wishes, ...(hint?.wishes ?? [])])
  let style = drawStyle(random, wishes)
  // A wish for length on the question's own line replaces the limit that stood.
  let most = hint?.wishes.some((wish) => wish === 'long' || wish === 'short') ? hint.most : standing.most
  // Which things a list names is free; nothing of it is more right than the rest.
  const key = draft.expect.kind === 'members' ? undefined : draft.right.key
  const turns = [user(asking(random, draft.question, draft.right.key, hint))]
  if (chance(random, WRONG)) {
    turns.push(assistant(tell(random, draft.wrong, style), false))
    turns.push(user(chance(random, 0.35) ? drawCorrection(random, draft.right.key) : drawDoubt(random)))
    style = drawStyle(random, wishes)
  }
  turns.push(assistant(tellWithin(random, draft.right, style, { wishes, most }), true, key))
  for (;;) {
    const then = weighted(random, { end: 62, complaint: 28, doubt: 3, repeat: 4, thanks: 13 })
    if (then === 'end') return turns
    if (then === 'thanks') {
      turns.push(user(drawThanks(random)), assistant(drawReply(random, style.warm)))
      return turns
    }
    if (then === 'complaint') {
      const complaint = drawComplaint(random, style)
      turns.push(user(chance(random, 0.2) ? `${complaint.text} ${draft.question}` : complaint.text))
      style = { ...style, ...grant(random, complaint.wish) }
      wishes = { ...wishes, ...granted(random, [complaint.wish]) }
      standing.wishes.push(complaint.wish)
      if (complaint.wish === 'long' || complaint.wish === 'short') most = standing.most = complaint.most
    } else if (then === 'doubt') {
      turns.push(user(drawDoubt(random)))
    } else {
      turns.push(user(draft.question))
      wishes = granted(random, standing.wishes)
      most = standing.most
      style = drawStyle(random, wishes)
    }
    turns.push(assistant(tellWithin(random, draft.right, style, { wishes, most }), true, key))
  }
}

/**
 * The shortest lesson: a question and its answer, mostly without explanation; now and then a hint or a name
 * with tastes, so that reading them is learned together with the content.
 */
export function bareExchange(random: Random, hinted = 0.45): Conversation {
  const draft = draftIn(random, 'train')
  const hint = chance(random, hinted) ? drawHint(random) : null
  const setting = hint === null && chance(random, 0.35) ? drawSetting(random) : { system: null, wishes: [], most: null }
  const wishes = granted(random, [...setting.wishes, ...(hint?.wishes ?? [])])
  const free = drawStyle(random)
  const style = {
    ...free,
    length:
      free.length === 'wordy' && chance(random, 0.85) ? pick(random, ['terse', 'sentence'] as const) : free.length,
    ...wishes,
  }
  const key = draft.expect.kind === 'members' ? undefined : draft.right.key
  const turns: Turn[] = setting.system === null ? [] : [{ role: 'system', content: setting.system, learn: false }]
  turns.push(
    user(hint === null ? draft.question : placed(random, draft.question, hint)),
    assistant(tellWithin(random, draft.right, style, { wishes, most: hint?.most ?? setting.most }), true, key),
  )
  return { tools: [], turns }
}

/** The next conversation of the stream. */
export function converse(random: Random): Conversation {
  const setting = drawSetting(random)
  const turns: Turn[] = setting.system === null ? [] : [{ role: 'system', content: setting.system, learn: false }]
  const standing: Standing = { wishes: [...setting.wishes], most: setting.most }
  const style = (): Style => drawStyle(random, granted(random, standing.wishes))
  const kind = weighted(random, { exchange: 88, unknown: 5.5, talk: 3.5, tools: 3 })
  if (kind === 'tools') {
    const { tools, turns: used } = drawToolUse(random)
    return { tools, turns: [...turns, ...used] }
  }
  if (kind === 'unknown') turns.push(...drawUnknown(random, style()))
  if (kind === 'talk') turns.push(...drawSmallTalk(random, style()))
  const long = chance(random, 0.02)
  const exchanges =
    kind === 'exchange' ? (long ? integer(random, 4, 8) : chance(random, 0.15) ? 2 : 1) : chance(random, 0.25) ? 1 : 0
  for (let i = 0; i < exchanges; i++) turns.push(...exchange(random, standing))
  return { tools: [], turns }
}
