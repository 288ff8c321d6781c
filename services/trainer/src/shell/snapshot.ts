/** The trainer's state in a snapshot: its folds and its pending turns. */
import { storedScores, storedTurns, storedUpdates, storedWeights, type Snapshot, type StateVersion } from '@instar/log'
import { EpisodeIndex, type Told } from '../core/episode-index.ts'
import type { TrainerState } from '../core/state.ts'
import { Ahead } from '../core/told.ts'

/**
 * Of the state that is stored. A change of its form or of its fold takes the next number, and a migration where the old
 * state has what the new one needs; test/snapshots/versions.test.ts fails without.
 */
export const STATE_VERSION: StateVersion = {
  number: 2,
  migrations: {
    // Version 1 always read `turns`, and kept nothing of what scores say of episodes: the state is the same.
    1: () => undefined,
  },
}

export const stateOfSnapshot = (snapshot: Snapshot, policy: string): TrainerState => ({
  policy,
  reads: 'turns',
  ahead: new Ahead(),
  turns: storedTurns(snapshot),
  scores: storedScores(snapshot, policy),
  updates: storedUpdates(snapshot, { training: true }),
  weights: storedWeights(snapshot),
  pending: snapshot.queues('pending'),
  episodes: snapshot.queues('episodes'),
  told: snapshot.resident<Told>('told'),
  says: snapshot.resident<boolean>('says'),
  index: new EpisodeIndex(),
  keys: snapshot.resident<number>('keys'),
})
