/** The publisher's fold for checkpoints. */
import type { StoredFold } from '@instar/log'
import { evolve } from '../core/state.ts'
import { STATE_VERSION, stateOfSnapshot } from './snapshot.ts'

export const publisherFold: StoredFold = {
  service: 'publisher',
  version: STATE_VERSION,
  topics: ['scores', 'weights', 'updates'],
  on(snapshot, policy) {
    // The latest praised turns, at most so many: which are among them depends on when batches that took others are read.
    snapshot.interleaved('positive')
    const state = stateOfSnapshot(snapshot, policy)
    return (logged) => evolve(state, logged)
  },
}
