/**
 * The fold of the beginnings of episodes on `scores`, per policy. A session has one: the first without a name of its task,
 * which the first with one replaces. Behind the end of the session none counts, since the end says all of it.
 */
import type { EpisodeBegun, Logged } from '../records.ts'
import type { EpisodeEnds } from './episode-ends.ts'
import { COUNTED, ignored, type FoldOutcome } from './outcome.ts'
import type { Table } from './table.ts'

/** `task`: as in the record. */
export type EpisodeBeginState = Pick<EpisodeBegun, 'task'>

/** Of episodes without an end, by session. */
export type EpisodeBegins = Table<string, EpisodeBeginState>

export const foldEpisodeBegun = (
  begins: EpisodeBegins,
  ends: EpisodeEnds | undefined,
  { event }: Logged<EpisodeBegun>,
): FoldOutcome => {
  if (!isBeginMissing(begins, ends, event)) return ignored('repeat')
  begins.set(event.session, { task: event.task })
  return COUNTED
}

/** Whether no record that was read says this. */
export const isBeginMissing = (
  begins: EpisodeBegins | undefined,
  ends: EpisodeEnds | undefined,
  { session, task }: Pick<EpisodeBegun, 'session' | 'task'>,
): boolean => {
  if (ends?.has(session)) return false
  const before = begins?.get(session)
  return !before || (before.task === '' && task !== '')
}
