/** When a running service writes the next checkpoint of a fold. */
import type { StateCheckpointed } from '@instar/events'
import type { EventLog, Offsets } from '../port.ts'

/** Whichever is reached first; null: not by it. `turns`: records of the topic `turns`; `ms`: milliseconds. */
export type CheckpointSchedule = { turns: number | null; ms: number | null }

/** `turns`: records of `turns` behind the newest checkpoint; `ms`: its age, `Infinity` where there is none. */
export const isDue = (every: CheckpointSchedule, { turns, ms }: { turns: number; ms: number }): boolean =>
  turns > 0 && (turns >= (every.turns ?? Infinity) || (every.ms !== null && ms >= every.ms))

/** Records of `turns` between the positions of a checkpoint (none: the start) and the ends of the log. */
export const turnsBehind = (
  log: Pick<EventLog, 'sequential'>,
  positions: StateCheckpointed['positions'],
  ends: Offsets,
): number => {
  const reached = positions.filter(({ topic }) => topic === 'turns').map(({ next }) => next)
  const there = Object.values(ends.turns ?? {})
  const total = log.sequential
    ? (offsets: readonly number[]): number => Math.max(0, ...offsets)
    : (offsets: readonly number[]): number => offsets.reduce((sum, offset) => sum + offset, 0)
  return total(there) - total(reached)
}
