/**
 * The fold of the ends of episodes on `scores`, per policy. A session has one end: the first without an outcome, which the
 * first with one replaces. Of an end in several records each counts once.
 */
import type { EpisodeEnded, Logged } from '../records.ts'
import { COUNTED, ignored, type FoldOutcome } from './outcome.ts'
import type { Table } from './table.ts'

/** `closing`, `outcome` and `parts`: as in the record. `read`: parts that were read. */
export type EpisodeEndState = Pick<EpisodeEnded, 'closing' | 'outcome' | 'parts'> & { read: number[] }

/** By session. */
export type EpisodeEnds = Table<string, EpisodeEndState>

export const foldEpisodeEnd = (ends: EpisodeEnds, { event }: Logged<EpisodeEnded>): FoldOutcome => {
  if (!isMissing(ends, event)) return ignored('repeat')
  const { session, closing, outcome, parts, part } = event
  const before = ends.get(session)
  const read = before?.closing === closing ? before.read : []
  ends.set(session, { closing, outcome, parts, read: [...read, part] })
  return COUNTED
}

/** Whether no record that was read says this. */
export const isMissing = (
  ends: EpisodeEnds | undefined,
  { session, closing, outcome, part }: Pick<EpisodeEnded, 'session' | 'closing' | 'outcome' | 'part'>,
): boolean => {
  const before = ends?.get(session)
  if (!before) return true
  if (outcome === null) return false
  return before.outcome === null || (before.closing === closing && !before.read.includes(part))
}
