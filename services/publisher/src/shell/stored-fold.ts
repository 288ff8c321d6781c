/** The publisher's fold for checkpoints. */
import type { StoredFold } from '@instar/log'
import { evolve } from '../core/state.ts'
import { STATE_VERSION, stateOfSnapshot } from './snapshot.ts'

export const publisherFold: StoredFold = {
  service: 'publisher',
  version: STATE_VERSION,
  topics: ['turns', 'scores', 'weights', 'updates'],
  on(snapshot, policy) {
    const state = stateOfSnapshot(snapshot, policy)
    return (logged) => evolve(state, logged)
  },
}
