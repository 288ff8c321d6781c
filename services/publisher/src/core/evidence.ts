/** The held-out turns on which a candidate is measured, and where turns are found. */
import type { TurnAborted, TurnCaptured, TurnSampled } from '@instar/events'
import type { PlaceState, PublisherState } from './state.ts'

/**
 * At most `limit` turns with a positive score that no batch of any line has trained on, newest first. The batch of the
 * candidate is one of these batches. With scores of an earlier build some of them may not be usable (`isUsable`).
 */
export const positiveTurns = (state: PublisherState, limit: number): string[] => {
  const found: string[] = []
  for (const id of [...state.positive].reverse()) {
    if (found.length >= limit) break
    if (!state.trained.has(id)) found.push(id)
  }
  return found
}

/** What is known of where a turn is; undefined for one without a score. */
export const placeOf = (
  state: PublisherState,
  turn: string,
): { scoredAt: number; of: PlaceState | null } | undefined => {
  const score = state.scores.turns.get(turn)
  return score && { scoredAt: score.at, of: state.places.get(turn) ?? null }
}

/** Whether a batch could use the turn: its score says so, unless it is of an earlier build. */
export const isUsable = ({
  type,
  trainable,
}: Pick<TurnCaptured | TurnAborted | TurnSampled, 'type' | 'trainable'>): boolean => type !== 'TurnAborted' && trainable
