/** When the trainer leaves the topic `turns`, and when it must read it again (core/told.ts). */
import type { RecordName, Topic } from '@instar/events'
import { versionsOn, type EventLog } from '@instar/log'
import { hasUnread } from '../core/pending.ts'
import type { TrainerState } from '../core/state.ts'
import { mayReadScoresAlone } from '../core/told.ts'

/** For `DeciderOptions`. */
export const topicsLeft = (
  log: EventLog,
  scoresAlone: boolean,
): {
  opened(state: TrainerState, left: readonly Topic[]): string | null
  leaves(state: TrainerState): readonly Topic[]
} => ({
  opened(state, left) {
    state.reads = left.includes('turns') ? 'scores' : 'turns'
    if (state.reads === 'turns') return null
    if (!scoresAlone) return 'training.scoresAlone is off'
    return hasUnread(state) ? 'scores of an earlier build do not say what their turns are' : null
  },
  leaves(state) {
    const may = scoresAlone && state.reads === 'turns' && saysTurns(log) && state.says.get(state.policy) === true
    return may && mayReadScoresAlone(state) ? ['turns'] : []
  },
})

/** Whether all scores that are written from now on say what their turns are, and when episodes begin and end. */
const saysTurns = (log: EventLog): boolean => {
  const versions = versionsOn(log)
  const says = (name: RecordName, version: number): boolean => (versions.get(name) ?? 0) >= version
  return says('TurnScored', 2) && says('TurnSkipped', 2) && says('EpisodeBegun', 1) && says('EpisodeEnded', 1)
}
