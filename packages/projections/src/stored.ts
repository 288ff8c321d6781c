/** The state of the projection in a snapshot. */
import {
  foldVersion,
  storedByPolicy,
  storedScores,
  storedTurns,
  storedUpdates,
  storedWeights,
} from '@instar/log/snapshots/index'
import type { Snapshot } from '@instar/log/snapshots/snapshot'
import type { Projection } from './project.ts'

/** The version of the snapshot: a digest of the sources that compute the state. */
export const stateVersion = (): string =>
  foldVersion(['./project.ts', './stored.ts'].map((name) => new URL(name, import.meta.url)))

export const storedProjection = (snapshot: Snapshot): Projection => ({
  turns: storedTurns(snapshot),
  scores: storedByPolicy((policy) => storedScores(snapshot, policy)),
  updates: storedUpdates(snapshot, { training: false }),
  weights: storedWeights(snapshot),
})
