/** The turns that are still to be scored: a cut must leave them on the log. */
import { openTurns } from '@instar/events'
import { openFold, type EventLog } from '@instar/log'
import { isJudged, needOf, scoreOf } from '../core/need.ts'
import { evolve, type ScorerState } from '../core/state.ts'
import { stateOfSnapshot } from './snapshot.ts'
import { scorerFold } from './stored-fold.ts'

/**
 * The ids of the turns that need a score, of those that reply to them, and of those that will need one once their session is closed,
 * as of the log's end. Folds the log from the newest checkpoint on. Throws `no_temporary_file`, `aborted`.
 */
export const unscoredTurns = async (log: EventLog, options: Parameters<typeof openFold>[2]): Promise<string[]> => {
  let state: ScorerState
  const fold = {
    ...scorerFold,
    on: (snapshot: Parameters<typeof scorerFold.on>[0]) => {
      state = stateOfSnapshot(snapshot)
      return (logged: Parameters<typeof evolve>[1]) => evolve(state, logged)
    },
  }
  const running = await openFold(log, fold, options)
  try {
    await running.upTo(await log.ends(fold.topics))
    return idsOf(state!)
  } finally {
    await running.remove()
  }
}

const idsOf = (state: ScorerState): string[] => {
  const ids: string[] = []
  for (const id of state.needed) {
    const turn = state.turns.turns.get(id)
    const need = turn && needOf(state, turn)
    if (need) ids.push(...[id, need.next, need.shown].filter((one) => one !== null))
  }
  for (const [name] of state.idle.watched)
    for (const id of openTurns(state.turns.sessions.get(name))) {
      const turn = state.turns.turns.get(id)
      if (turn && isJudged(turn) && !scoreOf(state, id)) ids.push(id)
    }
  return ids
}
