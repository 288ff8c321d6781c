/** Which turns of the log a candidate is asked about: recent, and not of the batch that made it. */
import { type BatchSealed } from '@instar/events'
import type { PublisherState } from './state.ts'

/** The latest turns with a positive score that this batch does not hold, newest first. */
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
