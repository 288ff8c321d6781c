/** A judge's evidence and judgement, and how several judgements become one reward. */
import type { JudgeVerdict } from '@instar/events'
import { publicHint } from './private-values.ts'

/** One turn with what came of it. Texts are as the person saw them, known wrappers stripped (`wrapped` has them). */
export type Evidence = {
  /** The API key of the turn; null or absent: none. */
  key?: string | null
  /** The turn that is judged; absent where there is none: hints are then worded by the texts. */
  turn?: string
  /** The user's last words before the answer. */
  request: string
  answer: string
  /** Tool calls of the answer: its reply is not for the person. */
  calls: boolean
  /** What came after the answer; null: the session ended. */
  next: { user: string; tools: string } | null
  /** The shown candidate, to which `next` replied, when this answer was not shown. */
  shown?: string
  /**
   * What stood before the request: the system text, the last messages, the names of the tools that the request offers.
   * For judges that are models; absent: nothing did.
   */
  before?: { system: string; messages: readonly { role: string; text: string }[]; tools: readonly string[] }
  /** What stands in the user's messages inside an agent's wrappers, which a person can type, too; absent: nothing. */
  wrapped?: string
  /** `ScoredFacts.earlier` of the turn, for the score and no judge; absent: not known. */
  earlier?: readonly number[]
}

/**
 * `value` −1…1, or null when the judge abstained or failed; `note` gives the reason. A hint is 1–3 sentences,
 * positively phrased.
 */
export type Judgement = {
  value: number | null
  note: string
  hint: string | null
  /**
   * The value that the person called right, as they wrote it, whether the hint states it or not; null: none; absent: not
   * read.
   */
  claim?: string | null
  /** No opinion because the judge did not work, not because it had none. */
  failed?: boolean
}

/** Explicit feedback as the log has it. */
export type Feedback = { id: string; record: string; value: number; at: number; comment: string | null }

/** Digests of question and value. */
export type Claim = { about: string; is: string }

/** Digest of the question, and the words of the answer that was praised. */
export type Praised = { about: string; words: readonly string[] }

/** Of an answer. `form`: whether it has list items, other markup, an exclamation mark, a question mark; a digit each. */
export type Measures = { words: number; form: string }
/** `wordless`: the opinion is explicit feedback without a comment. */
export type Measured = Measures & { wordless: boolean }

export type JudgeOpinion = Judgement & { judge: string }

/**
 * `reward` null: no judge gave a value; `reason` is `no_next_state`, `judge_failed`, `abstained`, or `unreadable`
 * from the shell.
 */
export type Judged = {
  verdicts: JudgeVerdict[]
  reward: number | null
  judge: string | null
  hint: string | null
  hintJudge: string | null
  reason: string | null
  /** The person called a value right, which teaches only where others agree (claims.ts); absent: none. */
  claim?: Claim
  /** Of a reward above 0: teaches a value that its person claims only where others agree; absent: it is not looked at. */
  praised?: Praised
  /** Digest of request, answer and reaction (duplicates.ts); absent: it is not counted. */
  same?: string
  /** Digest of the question (asked-alone.ts); absent: it is not counted. */
  asked?: string
  /** Of the answer (own-record.ts); absent: the opinion is not recorded. */
  measured?: Measured
  /** As that of the evidence. */
  earlier?: readonly number[]
}

export const withPlaces = (judged: Judged, { earlier }: Pick<Evidence, 'earlier'>): Judged =>
  earlier === undefined ? judged : { ...judged, earlier }

/**
 * The first opinion with a finite value in −1…1 is the reward. Its hint goes with it; an opinion that has a value and
 * no hint takes the hint of the next one that does, if the reward is negative. What a hint quotes of a person's own
 * values (private-values.ts) is left out: it is stored, and learned from. `claimOf`: the claim of a value. Such a
 * value of a person's own is no claim: its digest could be guessed.
 */
export const settle = (opinions: readonly JudgeOpinion[], claimOf?: (value: string) => Claim): Judged => {
  const checked = opinions.map((o) =>
    o.value !== null && (!Number.isFinite(o.value) || Math.abs(o.value) > 1)
      ? { ...o, value: null, failed: true, note: `nonsense: ${o.value}` }
      : o,
  )
  const verdicts = checked.map(({ judge, value, note }) => ({ judge, value, note }))
  const winner = checked.find((o) => o.value !== null)
  if (!winner || winner.value === null)
    return {
      verdicts,
      reward: null,
      judge: null,
      hint: null,
      hintJudge: null,
      reason:
        checked.length === 0 ? 'no_next_state' : checked.some((o) => o.failed === true) ? 'judge_failed' : 'abstained',
    }
  const hinted = winner.value < 0 ? (winner.hint !== null ? winner : checked.find((o) => o.hint !== null)) : undefined
  const hint = publicHint(hinted?.hint ?? null)
  const value = hinted?.claim ?? winner.claim ?? null
  const claim = value !== null && publicHint(value) === value ? value : null
  return {
    verdicts,
    reward: winner.value,
    judge: winner.judge,
    hint,
    hintJudge: hint === null ? null : (hinted?.judge ?? null),
    reason: null,
    ...(claim === null || !claimOf ? {} : { claim: claimOf(claim) }),
  }
}
