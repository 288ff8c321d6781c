/** The trainer's state in a snapshot: its folds and its pending turns. */
import { foldVersion, storedScores, storedTurns, storedUpdates, storedWeights, type Snapshot } from '@instar/log'
import { EpisodeIndex } from '../core/episode-index.ts'
import type { TrainerState } from '../core/state.ts'

/** A digest of the sources that determine the stored state. */
export const snapshotVersion = (): string =>
  foldVersion(['../core/state.ts', '../core/pending.ts', './snapshot.ts'].map((name) => new URL(name, import.meta.url)))

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
