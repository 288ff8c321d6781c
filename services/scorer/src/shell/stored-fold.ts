/** The scorer's fold for checkpoints. */
import type { StoredFold } from '@instar/log'
import { evolve } from '../core/state.ts'
import { STATE_VERSION, stateOfSnapshot } from './snapshot.ts'

export const scorerFold: StoredFold = {
  service: 'scorer',
  version: STATE_VERSION,
  topics: ['turns', 'scores', 'weights'],
  on(snapshot) {
    const state = stateOfSnapshot(snapshot)
    return (logged) => evolve(state, logged)
  },
}
