/** Records of episodes on `scores`: that one began, and that it ended. */
import type { EpisodeRecord, FoldOutcome, Logged, TurnsEvent } from '@instar/events'
import { beginEpisodes, endBegun, evolveBegin, noteBegin, type BeginningState } from './episode-begins.ts'
import { endEpisodes, evolveEnd, noteEnd, type EndingState } from './episode-ends.ts'
import { forgetAppended, hasMissing, isComplete, lookAtMissing } from './missing-records.ts'
import type { ScoredTurns } from './need.ts'

export { abortTold } from './episode-ends.ts'

export type EpisodeState = BeginningState & EndingState

/** After a record of `turns` that counted. */
export const noteEpisode = (state: EpisodeState, event: TurnsEvent): void => {
  noteBegin(state, event)
  noteEnd(state, event)
}

export const evolveEpisode = (state: EpisodeState, logged: Logged<EpisodeRecord>): FoldOutcome => {
  const { event } = logged
  if (event.type === 'EpisodeBegun') return evolveBegin(state, { ...logged, event })
  const outcome = evolveEnd(state, { ...logged, event })
  endBegun(state, event)
  return outcome
}

/** What an earlier process appended and was not read is missing. */
export const forgetEpisodes = ({ beginning, ending }: EpisodeState): void => [beginning, ending].forEach(forgetAppended)

/** All that is missing is looked at: also what others had begun, or a process before this one. */
export const lookAtEpisodes = ({ beginning, ending }: EpisodeState): void => [beginning, ending].forEach(lookAtMissing)

/** Whether `episodeRecords` has something to look at. */
export const hasEpisodes = ({ beginning, ending, versions }: EpisodeState): boolean =>
  hasMissing(beginning, 'EpisodeBegun', versions) || hasMissing(ending, 'EpisodeEnded', versions)

/** Whether no record that may be written is missing. */
export const areRecorded = ({ beginning, ending, versions }: EpisodeState): boolean =>
  isComplete(beginning, 'EpisodeBegun', versions) && isComplete(ending, 'EpisodeEnded', versions)

/** The records in the assigned partitions that are missing and not on their way, some `most` at most. */
export const episodeRecords = (
  state: EpisodeState & ScoredTurns,
  now: number,
  assigned: (partition: number) => boolean,
  most: number,
): { do: 'append'; record: string; event: EpisodeRecord }[] => {
  const begins = beginEpisodes(state, now, assigned, most)
  return [...begins, ...endEpisodes(state, now, assigned, most - begins.length)]
}
