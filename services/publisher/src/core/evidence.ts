/** The held-out turns on which a candidate is measured. */
import { type BatchSealed } from '@instar/events'
import type { PublisherState } from './state.ts'

/** At most `limit` trainable turns with a positive score that are not in the batch, newest first. */
export const positiveTurns = (state: PublisherState, batch: BatchSealed, limit: number): string[] => {
  const own = new Set(batch.items.map((item) => item.turn))
  const found: string[] = []
  for (const id of [...state.positive].reverse()) {
    if (found.length >= limit) break
    const turn = state.turns.turns.get(id)
    if (turn?.trainable && turn.status === 'complete' && turn.discardedBy === null && !own.has(id)) found.push(id)
  }
  return found
}
