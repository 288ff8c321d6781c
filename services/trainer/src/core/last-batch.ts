/** What the metrics show of the last batch. */
import { updateLine } from '@instar/events'
import type { TrainerState } from './state.ts'

/** The largest shares of the last batch, 0…1: that of an API key and that of a subject. Null before the first batch. */
export const lastShares = (state: TrainerState): { key: number; subject: number } | null => {
  const line = updateLine(state.updates, state.policy)
  const items = line.byId.get(line.last)?.sealed.items ?? []
  if (items.length === 0) return null
  const largest = (of: Iterable<readonly unknown[]>): number =>
    Math.max(0, ...[...of].map(({ length }) => length)) / items.length
  const keyed = items.flatMap(({ turn }) => state.turns.turns.get(turn)?.key ?? [])
  return {
    key: largest(Map.groupBy(keyed, (key) => key).values()),
    subject: largest(Map.groupBy(items, ({ subject }) => subject).values()),
  }
}

/** Figures of its update; null before it is computed. */
export const lastFigures = (state: TrainerState): Record<string, number> | null => {
  const line = updateLine(state.updates, state.policy)
  return line.byId.get(line.last)?.update?.event.figures ?? null
}
