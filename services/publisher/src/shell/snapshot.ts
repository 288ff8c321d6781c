/**
 * The publisher's state in a snapshot: its folds, the updates without a verdict, and the turns with a positive score.
 */
import { storedScores, storedTurns, storedUpdates, storedWeights, type Snapshot, type StateVersion } from '@instar/log'
import type { PublisherState } from '../core/state.ts'

/**
 * Of the state that is stored. A change of its form or of its fold takes the next number, and a migration where the old
 * state has what the new one needs; test/snapshots/versions.test.ts fails without.
 */
export const STATE_VERSION: StateVersion = { number: 1, migrations: {} }

export const stateOfSnapshot = (snapshot: Snapshot, policy: string): PublisherState => ({
  policy,
  turns: storedTurns(snapshot),
  scores: storedScores(snapshot, policy),
  updates: storedUpdates(snapshot, { training: false }),
  weights: storedWeights(snapshot),
  unsettled: snapshot.shortQueue('unsettled'),
  positive: snapshot.shortQueue('positive'),
  trained: snapshot.keys('trained'),
})
