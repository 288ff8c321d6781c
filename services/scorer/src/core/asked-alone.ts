/**
 * Rewards on a question that nobody else asks: nothing opposes them in a batch, so a few of them replace a fact that the
 * model knows. Of the scores on the same question in ALONE_MS, those of one subject may exceed those of all other subjects
 * by a limit, and those of one API key those of all other keys; a turn beyond it is skipped, which is recorded. While a
 * policy has scores of a single subject (a single key), there are no others to be harmed, and that limit has no effect.
 *
 * The `note` of the verdict `asked` is the stored form, since a verdict has no other field for it and a published record
 * schema cannot be changed: digests of 16 hexadecimal digits, the last two words absent without a key.
 *   DIGEST by SUBJECT of KEY
 * `askedVerdict` writes it and `askedIn` reads it.
 */
import { derivedId, subjectOfSession, type JudgeVerdict, type ScoresEvent, type TurnState } from '@instar/events'
import { wordsOf } from './claims.ts'
import type { Evidence, Judged } from './judgement.ts'
import { countAdded } from './policy-bound.ts'
import { MOST_READ } from './reactions/text.ts'

/** One score: digests of its subject and of its API key. */
type Score = { at: number; subject: string; key: string | null }
/** Question → its scores, newest last. `at`: offset of the newest. */
export type AskedTable = {
  get(name: string): { at: number; scores: readonly Score[] } | undefined
  set(name: string, asked: { at: number; scores: readonly Score[] }): unknown
  delete(name: string): unknown
  readonly size: number
} & Iterable<readonly [string, { at: number }]>

/** Policy → the two subjects and the two keys of its newest scores, newest first, with their times. */
export type AskersTable = {
  get(policy: string): Askers | undefined
  set(policy: string, askers: Askers): unknown
}
type Newest = readonly (readonly [digest: string, at: number])[]
type Askers = { subject: Newest; key: Newest }

/** Questions that are held, for each policy; a quarter, the oldest, is forgotten at once. */
export const MOST_ASKED = 4096
/** Milliseconds for which a score counts. */
export const ALONE_MS = 30 * 24 * 3_600_000
/** Scores of one question that are held; the largest limit. */
export const MOST_SCORES = 64

/** Scores of one subject, or key, beyond those of all others. */
export const MOST_ALONE = 2

/** The reason of a turn beyond the limit. */
const ASKED_ALONE = 'asked_alone'
/** Reasons for which candidates beside a skipped answer are skipped as well. */
const OF_PERSONS: readonly string[] = [ASKED_ALONE, 'contradicted']
const ASKED_JUDGE = 'asked'
const digest = (...parts: string[]): string => derivedId('asked', ...parts).slice(0, 16)

const textOf = (text: string): string => (text.length > MOST_READ ? text : wordsOf(text).join(' '))

/**
 * Digest of the request and what the person said before it; letter case, punctuation and the system text make no difference.
 * Of a request that tools have answered since, each step is a question of its own.
 */
export const askedOf = ({ request, before }: Pick<Evidence, 'request' | 'before'>): string => {
  const messages = before?.messages ?? []
  const steps = messages.some(({ role }) => role === 'tool') ? messages : messages.filter(({ role }) => role === 'user')
  return digest('question', JSON.stringify([...steps.map(({ text }) => textOf(text)), textOf(request)]))
}

type Asker = Pick<TurnState, 'key' | 'subject' | 'session'>
/** A request that names no subject has its session's, and a client can open any number: all those are one. */
export const askerOf = ({ key, subject, session }: Asker): Omit<Score, 'at'> => ({
  subject: digest('subject', key ?? '', subject === subjectOfSession(session) ? '' : `named ${subject}`),
  key: key === null ? null : digest('key', key),
})

export const askedVerdict = (question: string, { subject, key }: Omit<Score, 'at'>): JudgeVerdict => ({
  judge: ASKED_JUDGE,
  value: null,
  note: `${question} by ${subject}${key === null ? '' : ` of ${key}`}`,
})

const NOTE = /^(\w{16}) by (\w{16})(?: of (\w{16}))?$/u
export type Asked = Omit<Score, 'at'> & { question: string }
export const askedIn = (verdicts: readonly JudgeVerdict[]): Asked | undefined => {
  const note = verdicts.find(({ judge }) => judge === ASKED_JUDGE)?.note
  const [, question, subject, key] = NOTE.exec(note ?? '') ?? []
  return question === undefined || subject === undefined ? undefined : { question, subject, key: key ?? null }
}

const nameOf = (policy: string, question: string): string => `${policy} ${question}`

/** Question → turn → its score, which was appended and has not been read back. */
export type PendingAsked = Map<string, Map<string, Asked>>

export type AskedState = { questions: AskedTable; askers: AskersTable; pendingAsked: PendingAsked }

/** The score would be one too many of its subject or of its key. */
const isBeyond = (
  { questions, askers, pendingAsked }: AskedState,
  policy: string,
  question: string,
  asker: Omit<Score, 'at'>,
  now: number,
  most: number,
): boolean => {
  const since = now - ALONE_MS
  const scores = [
    ...(questions.get(nameOf(policy, question))?.scores ?? []).filter(({ at }) => at > since),
    ...(pendingAsked.get(nameOf(policy, question))?.values() ?? []),
  ]
  const newest = askers.get(policy)
  return (['subject', 'key'] as const).some((level) => {
    const who = asker[level]
    if (who === null) return false
    const others = (newest?.[level] ?? []).some(([other, at]) => other !== who && at > since)
    const own = scores.filter((one) => one[level] === who).length
    return others && own >= most + scores.length - own
  })
}

const skippedAs = (verdicts: Judged['verdicts'], reason: string | null = ASKED_ALONE): Judged => ({
  verdicts,
  reward: null,
  judge: null,
  hint: null,
  hintJudge: null,
  reason,
})

/**
 * A candidate beside an answer is skipped where that answer was by a guard of its person, and does not count: a request asks once. `shown`: the
 * score of the answer, if it has one.
 */
export const asShown = (result: Judged, shown: { reason: string | null } | undefined): Judged =>
  result.reward !== null && OF_PERSONS.includes(shown?.reason ?? '')
    ? skippedAs(result.verdicts, shown?.reason)
    : result

/** A judgement beyond the limit is a skip; within, it names question and asker. */
export const withAskers = (
  state: AskedState,
  turn: Asker & Pick<TurnState, 'policy'>,
  result: Judged,
  now: number,
  most: number,
): Judged => {
  const { asked, reward, verdicts } = result
  if (asked === undefined || reward === null) return result
  const asker = askerOf(turn)
  if (isBeyond(state, turn.policy, asked, asker, now, most)) return skippedAs(verdicts)
  return { ...result, verdicts: [...verdicts, askedVerdict(asked, asker)] }
}

type ScoreOfTurn = Pick<ScoresEvent, 'verdicts' | 'policy' | 'turn'>

/** Call when a score is appended. */
export const beginPending = (pending: PendingAsked, { verdicts, policy, turn }: ScoreOfTurn): void => {
  const asked = askedIn(verdicts)
  if (!asked) return
  const name = nameOf(policy, asked.question)
  const turns = pending.get(name)
  if (turns) turns.set(turn, asked)
  else pending.set(name, new Map([[turn, asked]]))
}

/** Call when it is read back. */
export const endPending = (pending: PendingAsked, { verdicts, policy, turn }: ScoreOfTurn): void => {
  const asked = askedIn(verdicts)
  if (!asked) return
  const name = nameOf(policy, asked.question)
  const turns = pending.get(name)
  turns?.delete(turn)
  if (turns?.size === 0) pending.delete(name)
}

/** Folds a score that counts. */
export const foldAsked = (
  { questions, askers }: Pick<AskedState, 'questions' | 'askers'>,
  event: Pick<ScoresEvent, 'verdicts' | 'policy' | 'at'>,
  offset: number,
): void => {
  const found = askedIn(event.verdicts)
  if (!found) return
  const { question, subject, key } = found
  const { policy, at } = event
  const newest = askers.get(policy) ?? { subject: [], key: [] }
  askers.set(policy, {
    subject: withNewest(newest.subject, subject, at),
    key: key === null ? newest.key : withNewest(newest.key, key, at),
  })
  const added = countAdded(questions, policy, MOST_ASKED)
  const name = nameOf(policy, question)
  const before = questions.get(name)
  questions.set(name, { at: offset, scores: [...(before?.scores ?? []), { at, subject, key }].slice(-MOST_SCORES) })
  if (!before) added()
}

const withNewest = (newest: Newest, digested: string, at: number): Newest =>
  [[digested, at] as const, ...newest.filter(([one]) => one !== digested)].slice(0, 2)
