/**
 * From what a person missed to what should have been done, said positively: naming the unwanted thing makes a
 * small model do it more. One sentence each, so that up to three make a hint.
 */
import type { Complaint } from './rules/complaints.ts'

const INSTEAD: Readonly<Record<Complaint, string | null>> = {
  wrong: null,
  formatted: 'Answer in plain text.',
  unformatted: 'Answer as a list.',
  short: 'Answer in full detail with several sentences.',
  long: 'Answer briefly.',
  cold: 'Answer in a warm and friendly way.',
  gushing: 'Answer in a neutral tone.',
  unclear: 'Explain it clearly in simple words.',
  missed: null,
  poor: null,
}
/** Opposite complaints give no hint: neither says what would have been better. */
const OPPOSITES: readonly (readonly [Complaint, Complaint])[] = [
  ['short', 'long'],
  ['formatted', 'unformatted'],
  ['cold', 'gushing'],
]
const ORDER = Object.keys(INSTEAD) as Complaint[]
const MOST = 3
/** Characters of a person's that a hint quotes. */
const LONGEST_QUOTE = 60

/** Null when the complaints do not say what would have been better. It never asks for a thing and its opposite. */
export const hintFor = (complaints: ReadonlySet<Complaint>, rightAnswer: string | null): string | null => {
  const sentences =
    rightAnswer === null || rightAnswer.length > LONGEST_QUOTE ? [] : [`The right answer is ${rightAnswer}.`]
  const undecided = new Set(OPPOSITES.filter((pair) => pair.every((one) => complaints.has(one))).flat())
  for (const complaint of ORDER) {
    const sentence = complaints.has(complaint) && !undecided.has(complaint) ? INSTEAD[complaint] : null
    if (sentence !== null && sentences.length < MOST) sentences.push(sentence)
  }
  return sentences.length === 0 ? null : sentences.join(' ')
}

const NEGATION =
  /\b(?:do not|don't|does not|never|avoid|stop|without|no|not|isn't|aren't|less|fewer|refrain|instead of|rather than)\b/iu

/** A judge's hint in its usable form: one line of 1–3 sentences, phrased as an instruction. Null for anything else. */
export const usableHint = (text: unknown): string | null => {
  if (typeof text !== 'string') return null
  const hint = text.replace(/\s+/gu, ' ').trim()
  if (hint.length <= 10 || hint.length > 400 || NEGATION.test(hint)) return null
  return hint.split(/[.!?](?:\s|$)/u).filter((s) => s.trim() !== '').length <= 3 ? hint : null
}
