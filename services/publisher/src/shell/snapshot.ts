/**
 * The publisher's state in a snapshot: its folds, the updates without a verdict, and the turns with a positive score.
 */
import { foldVersion, storedScores, storedTurns, storedUpdates, storedWeights, type Snapshot } from '@instar/log'
import type { PublisherState } from '../core/state.ts'

/** A digest of the sources that determine the stored state. */
export const snapshotVersion = (): string =>
  foldVersion(['../core/state.ts', './snapshot.ts'].map((name) => new URL(name, import.meta.url)))

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
