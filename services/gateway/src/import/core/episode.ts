/** What a line says of the episode that its session is: the task, the outcome, whether it was aborted. */
import type { Headers } from '@instar/agents'
import { flag, isFields, wrong, type Fields } from '@instar/dialects'
import { taskIn, taskOf } from '../../session/core/task.ts'
import { rewardOf, timeOf, type ImportedEpisode, type ImportedOutcome, type Reading } from './imported-request.ts'

export const NO_EPISODE: ImportedEpisode = { task: null, outcome: null, discarded: false }

/** Throws `bad_request`. */
export const episodeIn = (line: Fields, headers: Headers, reading: Reading): ImportedEpisode => {
  const task = taskIn(line, 'task_id') ?? taskOf({ headers })
  return { task, outcome: outcomeIn(line['outcome'], reading), discarded: flag(line, 'discarded') }
}

/** `{value, task_id?, at?}`, as `instar export` writes it, or a reward. */
const outcomeIn = (outcome: unknown, reading: Reading): ImportedOutcome | null => {
  if (!isFields(outcome)) {
    const value = rewardOf(outcome, 'outcome', reading)
    return value === null ? null : { value, task: null, at: null }
  }
  const value = rewardOf(outcome['value'], 'outcome.value', { rewards: null })
  if (value === null) throw wrong('outcome.value', 'true, false or a number from -1 to 1')
  return { value, task: taskIn(outcome, 'task_id'), at: timeOf(outcome['at'], 'outcome.at') }
}
