/** The interface of a judge, and the configured judges as one: what a request to judge comes to. */
import { InstarError } from '@instar/events'
import type { SteppedDown } from '../core/breaker.ts'
import type { JudgeRequest } from '../core/decide.ts'
import { claimOf, praisedOf, valueOfHint } from '../core/claims.ts'
import { askedOf } from '../core/asked-alone.ts'
import { sameOf } from '../core/duplicates.ts'
import { whyNoPraise } from '../core/guards.ts'
import type { WordingSet } from '../core/hints.ts'
import { settle, type Evidence, type Judged, type Judgement, type JudgeOpinion } from '../core/judgement.ts'
import { measuresOf } from '../core/own-record.ts'
import { reactionsId, readWords } from '../core/reactions/judge.ts'
import { reactionModel } from './weights.ts'

export type Judge = {
  /** Its name, and a hash of its prompt or weights, model and settings. */
  id: string
  /** True: it is asked only about an answer that was shown and that has a next state. */
  needsNextState: boolean
  /** It answers at once: the bounds on waiting and on stale turns (config: `backlog`, `staleness`) do not apply to it. */
  quick?: boolean
  /** False: it is passed over for this turn; absent: it is always asked. */
  isAsked?(evidence: Evidence): boolean
  /** Why another judge judges in its place, for all keys or for some; null: none does. Absent: none ever does. */
  steppedDown?(): SteppedDown | null
  /** Called once before the first turn, so that no turn pays for it. */
  prepare?(): void
  judge(evidence: Evidence, signal: AbortSignal): Promise<Judgement> | Judgement
}

const FEEDBACK_JUDGE = 'feedback'

/**
 * Explicit feedback is the reward, unchanged; no judge is asked, and the comment and the user's next words are read for
 * a hint, in `wordings`. Without feedback, the judges are asked in order until one returns a value. A judge that throws
 * has no value and is marked as failed; it does not count as a reward of 0, because that would be trained on.
 */
export const judgeTurn = async (
  judges: readonly Judge[],
  request: Pick<JudgeRequest, 'feedback'>,
  evidence: Evidence,
  signal: AbortSignal,
  wordings?: WordingSet,
): Promise<Judged> => {
  const claim = (value: string) => claimOf(value, evidence)
  if (request.feedback) {
    const { value, comment } = request.feedback
    const words = [comment ?? '', evidence.shown === undefined ? (evidence.next?.user ?? '') : '']
      .filter((text) => text !== '')
      .join('\n')
    const read = value < 0 && words !== '' ? readWords(reactionModel(), words, evidence, wordings) : null
    const reader: JudgeOpinion[] =
      read === null || read.hint === null
        ? []
        : [
            {
              judge: reactionsId(reactionModel(), { movedOn: null, wordings }),
              value: null,
              note: 'read for a hint',
              ...read,
            },
          ]
    return withMatter(
      settle(
        [{ judge: FEEDBACK_JUDGE, value, note: 'explicit', hint: null, claim: read?.claim ?? null }, ...reader],
        claim,
      ),
      evidence,
      (comment ?? '') === '',
    )
  }
  const opinions: JudgeOpinion[] = []
  for (const judge of judges) {
    if ((evidence.next === null || evidence.shown !== undefined) && judge.needsNextState) continue
    if (judge.isAsked?.(evidence) === false) continue
    const opinion = await opinionOf(judge, evidence, signal)
    opinions.push(opinion)
    if (opinion.value !== null) break
  }
  const judged = withMatter(settle(opinions, claim), evidence)
  const why = judged.reward !== null && judged.reward > 0 ? whyNoPraise(evidence.answer) : null
  if (why !== null) return { ...judged, reward: null, judge: null, reason: why }
  const same = sameOf(evidence)
  return same === null ? judged : { ...judged, same }
}

/** What guards need to know of a reward. */
const withMatter = (judged: Judged, evidence: Evidence, wordless = false): Judged => {
  if (judged.reward === null) return judged
  const measured = measuresOf(evidence)
  return {
    ...judged,
    asked: askedOf(evidence),
    ...(measured === null ? {} : { measured: { ...measured, wordless } }),
    ...(judged.reward > 0 ? { praised: praisedOf(evidence) } : {}),
  }
}

/**
 * The value that a judge's hint states, or else that the person's words call right. Words on the answer itself are a
 * correction only where its score is negative; of an answer that was not shown they correct the one that was.
 */
const valueNamed = ({ value, hint }: Judgement, evidence: Evidence): string | null => {
  const { shown, answer, next } = evidence
  if (value === null || (value > 0 && shown === undefined)) return null
  const stated = hint === null ? null : valueOfHint(hint, evidence, (hash) => reactionModel().commonWords.has(hash))
  if (stated !== null || !next || next.user.trim() === '') return stated
  return readWords(reactionModel(), next.user, { ...evidence, answer: shown ?? answer }).claim
}

const opinionOf = async (judge: Judge, evidence: Evidence, signal: AbortSignal): Promise<JudgeOpinion> => {
  try {
    const judgement = await judge.judge(evidence, signal)
    const claim = judgement.claim === undefined ? valueNamed(judgement, evidence) : judgement.claim
    return { judge: judge.id, ...judgement, claim }
  } catch (error) {
    signal.throwIfAborted()
    return {
      judge: judge.id,
      value: null,
      note: `failed: ${error instanceof InstarError ? error.code : (error as Error).name}`,
      hint: null,
      failed: true,
    }
  }
}
