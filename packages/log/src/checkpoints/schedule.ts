/** When a running service writes the next checkpoint of a fold. */
import type { StateCheckpointed } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import type { EventLog, Offsets } from '../port.ts'
import type { StoredFold } from './fold.ts'

/** Whichever is reached first; null: not by it. `turns`: records of the topic that `turnsBehind` counts; `ms`: milliseconds. */
export type CheckpointSchedule = { turns: number | null; ms: number | null }

/** `turns`: records behind the newest checkpoint; `ms`: its age, `Infinity` where there is none. */
export const isDue = (every: CheckpointSchedule, { turns, ms }: { turns: number; ms: number }): boolean =>
  turns > 0 && (turns >= (every.turns ?? Infinity) || (every.ms !== null && ms >= every.ms))

/** The topic whose records are counted: that of the turns, or that of their scores where the fold does not read turns. */
export const countedTopic = ({ topics }: Pick<StoredFold, 'topics'>): Topic =>
  topics.includes('turns') ? 'turns' : 'scores'

/** Records of the topic between the positions of a checkpoint (none: the start) and the ends of the log. */
export const turnsBehind = (
  log: Pick<EventLog, 'sequential'>,
  positions: StateCheckpointed['positions'],
  ends: Offsets,
  counted: Topic = 'turns',
): number => {
  const reached = positions.filter(({ topic }) => topic === counted).map(({ next }) => next)
  const there = Object.values(ends[counted] ?? {})
  const total = log.sequential
    ? (offsets: readonly number[]): number => Math.max(0, ...offsets)
    : (offsets: readonly number[]): number => offsets.reduce((sum, offset) => sum + offset, 0)
  return total(there) - total(reached)
}
