/**
 * The publisher's state in a snapshot: its folds, the updates without a verdict, and the turns with a positive score.
 */
import {
  clearTurns,
  storedBySession,
  storedScores,
  storedUpdates,
  storedWeights,
  type Snapshot,
  type StateVersion,
  withoutTopic,
} from '@instar/log'
import type { PlaceState, PublisherState } from '../core/state.ts'

/**
 * Of the state that is stored. A change of its form or of its fold takes the next number, and a migration where the old
 * state has what the new one needs; test/snapshots/versions.test.ts fails without.
 */
export const STATE_VERSION: StateVersion = {
  number: 2,
  migrations: {
    // Version 1 folded `turns`. The turns of its scores are found by the times of these alone.
    1(file) {
      clearTurns(file)
      withoutTopic(file, 'turns')
    },
  },
}

export const stateOfSnapshot = (snapshot: Snapshot, policy: string): PublisherState => ({
  policy,
  places: storedBySession(snapshot, `places ${policy}`, packPlace, unpackPlace),
  scores: storedScores(snapshot, policy),
  updates: storedUpdates(snapshot, { training: false }),
  weights: storedWeights(snapshot),
  unsettled: snapshot.shortQueue('unsettled'),
  positive: snapshot.shortQueue('positive'),
  trained: snapshot.keys('trained'),
})

type PackedPlace = [at: number, finishedAt: number, begunAt: number, earlier: PlaceState['earlier']]
const packPlace = ({ at, finishedAt, begunAt, earlier }: PlaceState): PackedPlace => [at, finishedAt, begunAt, earlier]
const unpackPlace = ([at, finishedAt, begunAt, earlier]: PackedPlace): PlaceState => ({
  at,
  finishedAt,
  begunAt,
  earlier,
})
