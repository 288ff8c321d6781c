/** The trainer's fold for checkpoints. */
import type { StoredFold } from '@instar/log'
import { evolve } from '../core/state.ts'
import { STATE_VERSION, stateOfSnapshot } from './snapshot.ts'

export const trainerFold: StoredFold = {
  service: 'trainer',
  version: STATE_VERSION,
  topics: ['turns', 'scores', 'weights', 'updates'],
  on(snapshot, policy) {
    // When a key was last active is noted when the later of turn and score is read, if the turn is usable then.
    snapshot.interleaved('keys')
    // A state of version 1 does not know it until the next score.
    snapshot.interleaved('says')
    const state = stateOfSnapshot(snapshot, policy)
    return (logged) => evolve(state, logged)
  },
}
