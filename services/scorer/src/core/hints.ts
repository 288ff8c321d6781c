/**
 * From what a person wished to an instruction, said positively: naming the unwanted thing makes a small model do it
 * more. Several wordings, so that what is learned is the wish and not its words.
 */
import { hashText } from './reactions/hash.ts'
import type { Wish } from './reactions/model.ts'
import { LONGEST_QUOTE } from './reactions/value.ts'

/**
 * `plainer` of an answer with lists, bold or headings is about its form (`unformatted`), else about its words
 * (`simpler`).
 */
type Worded = 'shorter' | 'longer' | 'unformatted' | 'simpler' | 'structured' | 'warmer' | 'drier'

export const WORDINGS: Readonly<Record<Worded, readonly string[]>> = {
  shorter: [
    'Answer briefly.',
    'Keep it short.',
    'Give a short answer.',
    'Be concise.',
    'Use few words.',
    'Say it in one or two sentences.',
  ],
  longer: [
    'Answer in full detail with several sentences.',
    'Give a detailed answer of several sentences.',
    'Explain in detail.',
    'Write a longer answer.',
    'Give a full explanation.',
    'Explain in several sentences.',
  ],
  unformatted: [
    'Answer in plain text.',
    'Answer in one plain paragraph.',
    'Write plain text.',
    'Use plain sentences.',
    'Write in flowing prose.',
    'Reply in plain text.',
  ],
  simpler: [
    'Explain it clearly in simple words.',
    'Use simple, everyday words.',
    'Say it in plain, simple sentences.',
    'Explain it as to a beginner.',
    'Keep the language simple and clear.',
    'Use short sentences and common words.',
  ],
  structured: [
    'Answer as a list.',
    'Use a numbered list.',
    'Give a list of steps.',
    'Write it as a list.',
    'Show it as a numbered list.',
    'Answer with a list.',
  ],
  warmer: [
    'Answer in a warm and friendly way.',
    'Use a warm, encouraging tone.',
    'Be kind and encouraging.',
    'Write in a warm and friendly tone.',
    'Add a friendly, encouraging word.',
    'Sound friendly.',
  ],
  drier: [
    'Answer in a neutral tone.',
    'Keep a neutral tone.',
    'Use a sober tone.',
    'Stay matter-of-fact.',
    'Be factual.',
    'Be businesslike.',
  ],
}

/** Sets of wordings: of the model that ships, and of general models. */
export const WORDING_SETS = ['tiny', 'general'] as const
export type WordingSet = (typeof WORDING_SETS)[number]

/**
 * Wordings that SmolLM2-135M follows where it does not follow those above (docs/learning.md, "A general model"). Wishes that
 * are not named have the wordings above.
 */
export const GENERAL_WORDINGS: Partial<Record<Worded, readonly string[]>> = {
  shorter: [
    'Answer in one short sentence.',
    'Answer with a single short sentence.',
    'Give me one short sentence.',
    'Reply with one short sentence.',
  ],
  unformatted: ['Answer in one short paragraph of prose.', 'Answer in one short sentence of prose.'],
  warmer: [
    'Be cheerful and encouraging!',
    'Sound cheerful and encouraging!',
    'Reply like a cheerful, dear friend!',
    'Be happy and friendly!',
  ],
}

/**
 * `…` is the value. It is said several times, since a small base hardly copies what is said once (docs/learning.md, "Values and
 * guards").
 */
export const VALUE_WORDINGS: readonly string[] = [
  'The right answer is …: …. So say …: ….',
  'The correct answer is …: …. So say …: ….',
  'Give … as the answer: …. So say …: ….',
  'The correct answer is …: …. Answer with ….',
  'The answer should be …: …. So say ….',
  'The expected answer is …: …. Say …: ….',
]

/** Lists, headings, bold, code spans or boxes. */
const MARKUP = /\*\*|__|^\s*(?:[-*•]|\d+[.)])\s|^#+\s|\\boxed|`|^\|/mu

/**
 * Null for a wish that names nothing to do. One wish at a time: a hint cannot ask for a thing and its opposite. The
 * same `key` (the turn's id) gives the same wording.
 */
export const hintFor = (
  wish: Wish,
  answer: string,
  value: string | null,
  key: string,
  set: WordingSet = 'tiny',
): string | null => {
  if (wish === 'other' || wish === 'undo') return null
  if (wish === 'fix_value')
    return value === null || value.length > LONGEST_QUOTE
      ? null
      : chosen(VALUE_WORDINGS, key).replaceAll('…', () => value)
  const worded = wish === 'plainer' ? (MARKUP.test(answer) ? 'unformatted' : 'simpler') : wish
  return chosen((set === 'general' ? GENERAL_WORDINGS[worded] : undefined) ?? WORDINGS[worded], key)
}

/** The wish that a hint of `hintFor` words; null for any other text, and for a value. */
export const hintKind = (hint: string): Worded | null =>
  (Object.keys(WORDINGS) as Worded[]).find((kind) =>
    [...WORDINGS[kind], ...(GENERAL_WORDINGS[kind] ?? [])].includes(hint),
  ) ?? null

const chosen = (wordings: readonly string[], key: string): string => wordings[hashText(key, 31) % wordings.length]!

/**
 * A judge's hint in its usable form: one line of 1–3 sentences, phrased as an instruction. Null for anything else. It may
 * contain a negation (negation.ts).
 */
export const usableHint = (text: unknown): string | null => {
  if (typeof text !== 'string') return null
  const hint = text.replace(/\s+/gu, ' ').trim()
  if (hint.length <= 10 || hint.length > 400) return null
  return hint.split(/[.!?](?:\s|$)/u).filter((s) => s.trim() !== '').length <= 3 ? hint : null
}
