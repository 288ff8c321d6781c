/** Whether a turn is still to be scored, and on what: a function of the two folds. */
import {
  outranks,
  readWritten,
  shownOf,
  type Rank,
  type ScoresState,
  type ScoreState,
  type Table,
  type TurnsState,
  type TurnState,
} from '@instar/events'
import type { Feedback } from './judgement.ts'

export type ScoredTurns = {
  turns: TurnsState
  /** One fold per policy: scores on a branch do not apply to its trunk. */
  scores: Table<string, ScoresState>
}

export type Need = {
  /** The turn whose request holds the next state; null: the session ended. */
  next: string | null
  /** The shown candidate, to which the next state replied, when it is not the turn itself. */
  shown: string | null
  /** Given: it is the reward, and judges are asked for a hint alone. */
  feedback: Feedback | null
  /** What gives rise to it: the next turn, or the record of the feedback or of the closing. */
  cause: string
  /** It is not to be learned from, also if it has a score: no judge is asked. */
  discarded: boolean
}

export const needOf = (state: ScoredTurns, turn: TurnState): Need | null => {
  const score = state.scores.get(turn.policy)?.turns.get(turn.turn)
  const feedback = latestFeedback(turn)
  const seen = shownOf(state.turns.sessions.get(turn.session), turn)
  if (!seen) return null
  const { next, closedBy } = seen
  const shown = turn.shown ? null : seen.turn
  const isNews = feedback !== null && (!score || outranks(rankOf(feedback), score.rank))
  if (turn.discardedBy !== null) {
    const skip = { next, shown, feedback: null, cause: turn.discardedBy, discarded: true }
    return isNews || (score ? isUntold(turn, score) : isJudged(turn)) ? skip : null
  }
  if (isNews) {
    const { comment } = feedback
    return {
      next,
      shown,
      feedback: { ...feedback, comment: comment ? readWritten(comment) : null },
      cause: feedback.record,
      discarded: false,
    }
  }
  if (score || !isJudged(turn)) return null
  if (next !== null) return { next, shown, feedback: null, cause: next, discarded: false }
  if (closedBy !== null) return { next: null, shown, feedback: null, cause: closedBy, discarded: false }
  return null
}

/**
 * Whether the score of a turn of an aborted episode leaves open that it is trained on: by its reward, or, where it was skipped
 * before the abort, by the outcome of the episode.
 */
const isUntold = (turn: TurnState, { reward, reason }: ScoreState): boolean =>
  reward !== null || (reason !== 'discarded' && turn.outcomeBy !== null && isJudged(turn))

/** Whether judges are asked about it. */
export const isJudged = ({ kind, status, trainable }: Pick<TurnState, 'kind' | 'status' | 'trainable'>): boolean =>
  kind === 'main' && status === 'complete' && trainable

export const rankOf = (feedback: { id: string; at: number }): Rank => ({ at: feedback.at, id: feedback.id })

const latestFeedback = (turn: TurnState): TurnState['feedback'][number] | null =>
  turn.feedback.reduce<TurnState['feedback'][number] | null>(
    (latest, one) => (latest === null || outranks(rankOf(one), rankOf(latest)) ? one : latest),
    null,
  )

export const scoreOf = (state: ScoredTurns, turn: string): ScoreState | undefined => {
  const policy = state.turns.turns.get(turn)?.policy
  return policy === undefined ? undefined : state.scores.get(policy)?.turns.get(turn)
}
