/**
 * The same request, answer and reaction again: what counts of it is capped, so that repeating a conversation does not
 * multiply its weight. Each score of a judge has a verdict `seen` with a digest of the three; the digests of the scores
 * are a fold, and a turn beyond the cap is skipped, which is recorded.
 *
 * The `note` of that verdict is the stored form of the digest, 16 hexadecimal digits and nothing else: a verdict has no
 * other field for it, and a published record schema cannot be changed. `seenVerdict` writes it and `seenIn` reads it.
 */
import { countAdded } from './policy-bound.ts'
import { derivedId, type JudgeVerdict, type ScoresEvent } from '@instar/events'
import type { Evidence, Judged } from './judgement.ts'

/** Digest → times of the scores with it, newest last. `at`: offset of the newest. */
export type SeenTable = {
  get(name: string): Seen | undefined
  set(name: string, seen: Seen): unknown
  delete(name: string): unknown
  readonly size: number
} & Iterable<readonly [string, Seen]>
type Seen = { at: number; times: readonly number[] }

/** Digests that are held, for each policy; a quarter, the oldest, is forgotten at once. */
export const MOST_SEEN = 4096
/** Milliseconds for which a score counts towards the cap. */
export const SEEN_MS = 24 * 3_600_000
/** Scores of one digest that are held; the largest cap. */
export const MOST_TIMES = 64

/** Scores of the same request, answer and reaction in SEEN_MS. */
export const MOST_DUPLICATES = 4

const SEEN_JUDGE = 'seen'

/** Null: nothing came after the answer. */
export const sameOf = ({ request, answer, next }: Evidence): string | null =>
  next === null
    ? null
    : derivedId('seen', ...[request, answer, next.user, next.tools].map((text) => JSON.stringify(text))).slice(0, 16)

/** The verdict that records a digest. */
export const seenVerdict = (same: string): JudgeVerdict => ({ judge: SEEN_JUDGE, value: null, note: same })

export const seenName = (policy: string, same: string): string => `${policy} ${same}`

/** Call when a score is appended (`by` 1) and when it is read back (`by` -1). */
export const countPending = (pending: PendingSeen, name: string, by: 1 | -1): void => {
  const count = (pending.get(name) ?? 0) + by
  if (count > 0) pending.set(name, count)
  else pending.delete(name)
}

/** The digest in a verdict of `seenVerdict`; undefined: there is none. */
export const seenIn = (verdicts: readonly JudgeVerdict[]): string | undefined =>
  verdicts.find(({ judge }) => judge === SEEN_JUDGE)?.note

/** Digest → scores with it that were appended and have not been read back. */
export type PendingSeen = Map<string, number>

/** At `now`, `most` scores of the digest count already or are on their way. */
const isBeyondCap = (
  { seen, pendingSeen }: { seen: SeenTable; pendingSeen: PendingSeen },
  name: string,
  now: number,
  most: number,
): boolean => {
  const counted = (seen.get(name)?.times ?? []).filter((at) => at > now - SEEN_MS).length
  return counted + (pendingSeen.get(name) ?? 0) >= most
}

/** A judgement beyond the cap is a skip; within, it names its digest. */
export const withCap = (
  state: { seen: SeenTable; pendingSeen: PendingSeen },
  policy: string,
  result: Judged,
  now: number,
  most: number,
): Judged => {
  const { same } = result
  if (same === undefined || result.reward === null) return result
  if (isBeyondCap(state, seenName(policy, same), now, most))
    return { verdicts: result.verdicts, reward: null, judge: null, hint: null, hintJudge: null, reason: 'duplicate' }
  return { ...result, verdicts: [...result.verdicts, seenVerdict(same)] }
}

/** Folds a score that counts. */
export const foldSeen = (
  table: SeenTable,
  event: Pick<ScoresEvent, 'verdicts' | 'policy' | 'at'>,
  offset: number,
): void => {
  const same = seenIn(event.verdicts)
  if (same === undefined) return
  const added = countAdded(table, event.policy, MOST_SEEN)
  const name = seenName(event.policy, same)
  const before = table.get(name)
  table.set(name, { at: offset, times: [...(before?.times ?? []), event.at].slice(-MOST_TIMES) })
  if (!before) added()
}
