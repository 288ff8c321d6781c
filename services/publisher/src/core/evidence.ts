/** The held-out turns on which a candidate is measured. */
import type { PublisherState } from './state.ts'

/**
 * At most `limit` trainable turns with a positive score that no batch of any line has trained on, newest first. The
 * batch of the candidate is one of these batches.
 */
export const positiveTurns = (state: PublisherState, limit: number): string[] => {
  const found: string[] = []
  for (const id of [...state.positive].reverse()) {
    if (found.length >= limit) break
    const turn = state.turns.turns.get(id)
    if (turn?.trainable && turn.status === 'complete' && turn.discardedBy === null && !state.trained.has(id))
      found.push(id)
  }
  return found
}
