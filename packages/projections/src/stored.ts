/** The state of the projection in a snapshot. */
import { storedByPolicy, storedScores, storedTurns, storedUpdates, storedWeights } from '@instar/log/snapshots/index'
import type { StateVersion } from '@instar/log/snapshots/index'
import type { Snapshot } from '@instar/log/snapshots/snapshot'
import type { Projection } from './project.ts'

/**
 * Of the state in the snapshot. A change of its form or of its fold takes the next number, and a migration where the old state
 * has what the new one needs; test/snapshots/versions.test.ts fails without. The rows in PostgreSQL have a number of their own
 * (`RULES`). `digests`: of the builds of 2026-11-28 before the number.
 */
export const STATE_VERSION: StateVersion = {
  number: 1,
  migrations: {},
  digests: { '112842b24fafaf3f': 1, '99f6c1e81385d535': 1, ba6dbc9a63545555: 1 },
}

export const storedProjection = (snapshot: Snapshot): Projection => ({
  turns: storedTurns(snapshot),
  scores: storedByPolicy((policy) => storedScores(snapshot, policy)),
  updates: storedUpdates(snapshot, { training: false }),
  weights: storedWeights(snapshot),
})
