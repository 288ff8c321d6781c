/** The trainer's state in a snapshot: its folds and its pending turns. */
import { storedScores, storedTurns, storedUpdates, storedWeights, type Snapshot, type StateVersion } from '@instar/log'
import { EpisodeIndex } from '../core/episode-index.ts'
import type { TrainerState } from '../core/state.ts'

/**
 * Of the state that is stored. A change of its form or of its fold takes the next number, and a migration where the old
 * state has what the new one needs; test/snapshots/versions.test.ts fails without.
 */
export const STATE_VERSION: StateVersion = { number: 1, migrations: {} }

export const stateOfSnapshot = (snapshot: Snapshot, policy: string): TrainerState => ({
  policy,
  turns: storedTurns(snapshot),
  scores: storedScores(snapshot, policy),
  updates: storedUpdates(snapshot, { training: true }),
  weights: storedWeights(snapshot),
  pending: snapshot.queues('pending'),
  episodes: snapshot.queues('episodes'),
  index: new EpisodeIndex(),
  keys: snapshot.resident<number>('keys'),
})
