/**
 * Opinions that contradict what the same person said before of answers of that kind. A reward is compared with a
 * running mean, so that one wrong sign among many right ones weighs as much as several of them: with a fifth of a person's
 * signs wrong, nearly half of what the others teach is undone (docs/learning.md, "Values and guards").
 *
 * Kinds are found by a decision stump (Iba and Langley 1992) on the person's last opinions: of the splits by length, list,
 * markup, exclamation mark and question mark the one that divides praise from complaints best, by the two-proportion z-test.
 * Only where one side is mostly praised and the other mostly complained about does what is measured here tell good from bad;
 * feedback against its side is then skipped. It stays in the record, and counts once it repeats: a person may change
 * their mind. Only explicit feedback without words is held against the record: what is said may be about content, and with hints
 * wrong reactions do little harm through rewards (ibid.).
 *
 * The `note` of the verdict `record` is the stored form, since a verdict has no other field for it and a published record
 * schema cannot be changed:
 *   SIGN WORDS FORM by SUBJECT
 * SIGN is + or -, FORM four digits (`Measures`), SUBJECT a digest of 16 hexadecimal digits. `recordVerdict` writes it and
 * `opinionIn` reads it.
 */
import { subjectOfKey, subjectOfSession, type JudgeVerdict, type ScoresEvent, type TurnState } from '@instar/events'
import { askerOf } from './asked-alone.ts'
import type { Evidence, Judged, Measures } from './judgement.ts'
import { countAdded } from './policy-bound.ts'

/** What a person said of an answer. */
type Opinion = Measures & { praise: boolean }
/** Person → their opinions, newest last. `at`: offset of the newest. */
export type RecordTable = {
  get(name: string): { at: number; opinions: readonly Opinion[] } | undefined
  set(name: string, held: { at: number; opinions: readonly Opinion[] }): unknown
  delete(name: string): unknown
  readonly size: number
} & Iterable<readonly [string, { at: number }]>

/** People whose opinions are held, for each policy; a quarter, the longest silent ones, is forgotten at once. */
export const MOST_PEOPLE = 4096
/** Opinions of one person that are held. */
export const MOST_OPINIONS = 64

/** Opinions on each side of a split, at least; 0: nothing is skipped. */
export const LEAST_OPINIONS = 4

const CONTRADICTED = 'contradicted'
const RECORD_JUDGE = 'record'

const MOST_WORDS = 9999
const FORM: readonly RegExp[] = [/^\s*(?:[-*•–]|\d+[.)])\s/mu, /\*\*|__|^#+\s|\\boxed|`|^\|/mu, /!/u, /\?/u]

/** Null: tools are called or have replied, so that the opinion is not on a text. */
export const measuresOf = ({ answer, calls, next }: Pick<Evidence, 'answer' | 'calls' | 'next'>): Measures | null => {
  if (calls || (next !== null && next.tools !== '')) return null
  const words = answer.split(/\s+/u).filter((word) => /[\p{L}\p{N}]/u.test(word)).length
  const form = FORM.map((pattern) => (pattern.test(answer) ? '1' : '0')).join('')
  return { words: Math.min(words, MOST_WORDS), form }
}

/** Standard errors by which the shares of praise on the two sides differ. Some twenty splits are compared. */
const LEAST_Z = 2.5
/**
 * Shares of opinions with a side's sign: of the side that is contradicted, and of the other. With 0.6 for both, 10 of 70 right
 * praises of people with conditional tastes were skipped, with these 2.
 */
const LEAST_OWN = 0.75
const LEAST_OTHER = 0.6
/** An opinion counts that repeats so often on its side. */
const REPEATED = 2

type Side = (of: Measures) => boolean

const praiseOf = (opinions: readonly Opinion[]): number =>
  opinions.filter(({ praise }) => praise).length / opinions.length

/** The sides of the best split; null: none divides praise from complaints. */
const bestSplit = (opinions: readonly Opinion[], least: number): Side | null => {
  const lengths = [...new Set(opinions.map(({ words }) => words))].toSorted((a, b) => a - b)
  const sides: Side[] = [
    ...Array.from({ length: FORM.length }, (_, at) => (of: Measures) => of.form[at] === '1'),
    ...lengths.map((length) => (of: Measures) => of.words >= length),
  ]
  const overall = praiseOf(opinions)
  let best: { z: number; side: Side } | null = null
  for (const side of sides) {
    const [within, without] = [opinions.filter(side), opinions.filter((one) => !side(one))]
    if (within.length < least || without.length < least) continue
    const error = Math.sqrt(overall * (1 - overall) * (1 / within.length + 1 / without.length))
    const z = error === 0 ? 0 : Math.abs(praiseOf(within) - praiseOf(without)) / error
    if (z > (best?.z ?? LEAST_Z)) best = { z, side }
  }
  return best?.side ?? null
}

/** The opinion contradicts the earlier ones, oldest first. `least`: opinions on each side of a split. */
export const isContradicted = (
  opinions: readonly Opinion[],
  { praise, ...answer }: Opinion,
  least = LEAST_OPINIONS,
): boolean => {
  const side = least === 0 ? null : bestSplit(opinions, least)
  if (!side) return false
  const own = opinions.filter((one) => side(one) === side(answer))
  const shareOf = (of: readonly Opinion[], sign: boolean): number => (sign ? praiseOf(of) : 1 - praiseOf(of))
  const others = opinions.filter((one) => side(one) !== side(answer))
  if (shareOf(own, !praise) < LEAST_OWN || shareOf(others, praise) < LEAST_OTHER) return false
  return !own.slice(-REPEATED).every((one) => one.praise === praise)
}

/** Explicit feedback without a comment, and without a value in the next message. */
const isWordless = ({ hint, claim, measured }: Judged): boolean =>
  measured?.wordless === true && hint === null && claim === undefined

export const recordVerdict = ({ praise, words, form }: Opinion, subject: string): JudgeVerdict => ({
  judge: RECORD_JUDGE,
  value: null,
  note: `${praise ? '+' : '-'} ${words} ${form} by ${subject}`,
})

const NOTE = /^([+-]) (\d{1,4}) ([01]{4}) by (\w{16})$/u
export const opinionIn = (verdicts: readonly JudgeVerdict[]): (Opinion & { subject: string }) | undefined => {
  const note = verdicts.find(({ judge }) => judge === RECORD_JUDGE)?.note
  const [, sign, words, form, subject] = NOTE.exec(note ?? '') ?? []
  return form === undefined || subject === undefined
    ? undefined
    : { praise: sign === '+', words: Number(words), form, subject }
}

const nameOf = (policy: string, subject: string): string => `${policy} ${subject}`

/** Requests without a `user` may be of many people, of whom most would outvote the others: they have no record. */
const namesPerson = ({ key, subject, session }: Pick<TurnState, 'key' | 'subject' | 'session'>): boolean =>
  subject !== subjectOfSession(session) && (key === null || subject !== subjectOfKey(key))

/** A judgement that the person's record contradicts is a skip; either way its opinion is recorded. */
export const withRecord = (
  table: Pick<RecordTable, 'get'>,
  turn: Pick<TurnState, 'policy' | 'key' | 'subject' | 'session'>,
  result: Judged,
  least: number,
): Judged => {
  const { measured, reward } = result
  if (measured === undefined || reward === null || reward === 0 || !namesPerson(turn)) return result
  const { subject } = askerOf(turn)
  const opinion = { words: measured.words, form: measured.form, praise: reward > 0 }
  const verdicts = [...result.verdicts, recordVerdict(opinion, subject)]
  const opinions = table.get(nameOf(turn.policy, subject))?.opinions ?? []
  if (!isWordless(result) || !isContradicted(opinions, opinion, least)) return { ...result, verdicts }
  return { verdicts, reward: null, judge: null, hint: null, hintJudge: null, reason: CONTRADICTED }
}

/** Folds a score or a skip that counts. */
export const foldRecord = (
  table: RecordTable,
  event: Pick<ScoresEvent, 'verdicts' | 'policy'>,
  offset: number,
): void => {
  const found = opinionIn(event.verdicts)
  if (!found) return
  const { subject, ...opinion } = found
  const added = countAdded(table, event.policy, MOST_PEOPLE)
  const name = nameOf(event.policy, subject)
  const before = table.get(name)
  table.set(name, { at: offset, opinions: [...(before?.opinions ?? []), opinion].slice(-MOST_OPINIONS) })
  if (!before) added()
}
