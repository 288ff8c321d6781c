/** What a score says of its turn, so that who reads scores needs no fold of `turns`. */
import type { ScoredFacts } from '../records.ts'
import type { SessionState, TurnState } from './turn-states.ts'

/** Why no batch of the turn's policy can use it, in at most 100 characters; null for a usable turn. */
export const whyUnusable = ({ discardedBy, status, trainable, reason }: TurnState): string | null =>
  discardedBy !== null
    ? 'discarded'
    : status !== 'complete'
      ? (reason ?? status).slice(0, 100)
      : !trainable
        ? (reason ?? 'not_trainable').slice(0, 100)
        : null

/** `session`: of the turn. `earlier`: as the field. */
export const scoredFacts = (
  session: SessionState | undefined,
  turn: TurnState,
  earlier: readonly number[] | null,
): ScoredFacts => {
  const { record, group, candidates, shown, key, task, at, finishedAt } = turn
  const begunAt = session?.turns[0]?.at ?? at
  return { record, group, candidates, shown, key, task, unusable: whyUnusable(turn), begunAt, at, finishedAt, earlier }
}
