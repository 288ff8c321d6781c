/** The state of an audit in a snapshot: in a temporary file, and in checkpoints, from which `verify` and `replay` can start. */
import { InstarError, type ScoresEvent, type Table, type VersionRejected } from '@instar/events'
import {
  storedByPolicy,
  storedBySession,
  storedScores,
  storedTurns,
  storedUpdates,
  storedWeights,
  type Snapshot,
  type StateVersion,
  type StoredFold,
} from '@instar/log'
import { evolveAudit, type AuditState, type Sealing, type Series } from '../core/audit-state.ts'

/**
 * Of the state that is stored. A change of its form or of its fold takes the next number; test/snapshots/versions.test.ts
 * fails without.
 */
export const STATE_VERSION: StateVersion = { number: 1, migrations: {} }

/**
 * `ordered`: with the order of all turns. It depends on which of two partitions is read first, so that a checkpoint has their number
 * alone, and the items of `turnOrder` cannot be read.
 */
export const auditOfSnapshot = (snapshot: Snapshot, policy: string, { ordered }: { ordered: boolean }): AuditState => ({
  policy,
  turns: storedTurns(snapshot),
  scores: storedByPolicy((one) => storedScores(snapshot, one)),
  updates: storedUpdates(snapshot, { training: true }),
  weights: storedWeights(snapshot),
  scoreRecords: snapshot.table<ScoresEvent>('score records'),
  turnOrder: ordered
    ? series(snapshot.table<string>('turns', plain))
    : counted(snapshot.table<number>('counts', plain)),
  scored: storedByPolicy((one) => series(snapshot.table<string>(`scored ${one}`, plain))),
  batches: storedByPolicy((one) => series(snapshot.table<string>(`order ${one}`, plain))),
  moves: series(snapshot.table<{ to: number; at: number }>('moves', plain)),
  rejected: snapshot.table<VersionRejected>('rejected'),
  sealings: snapshot.table<Sealing>('sealings'),
  spentAt: storedBySession<number, number>(
    snapshot,
    'spent at',
    (at) => at,
    (at) => at,
  ),
})

const plain = { json: () => true }

/** The length of a list. */
const counted = (table: Table<string, number>): Series<string> => ({
  get length() {
    return table.get('turns') ?? 0
  },
  push: () => table.set('turns', (table.get('turns') ?? 0) + 1),
  at() {
    throw new InstarError('internal', 'the order of turns is not in a checkpoint')
  },
})

/** A list whose items are never removed, so that its length need not be stored. */
const series = <T>(table: Table<string, T>): Series<T> => {
  let length: number | undefined
  const known = (): number => (length ??= lengthOf(table))
  return {
    get length() {
      return known()
    },
    push(item) {
      const index = known()
      table.set(String(index), item)
      length = index + 1
    },
    at: (index) => table.get(String(index)),
  }
}

/** Of the list in a table, in some ⌈2 log₂ length⌉ reads. */
const lengthOf = <T>(table: Table<string, T>): number => {
  const has = (index: number): boolean => table.get(String(index)) !== undefined
  if (!has(0)) return 0
  let last = 0
  let beyond = 1
  while (has(beyond)) {
    last = beyond
    beyond *= 2
  }
  while (beyond - last > 1) {
    const middle = (last + beyond) >> 1
    if (has(middle)) last = middle
    else beyond = middle
  }
  return beyond
}

/** The audit's fold for checkpoints. */
export const auditFold: StoredFold = {
  service: 'audit',
  version: STATE_VERSION,
  topics: ['turns', 'scores', 'weights', 'updates'],
  on(snapshot, policy) {
    const state = auditOfSnapshot(snapshot, policy, { ordered: false })
    return (logged) => evolveAudit(state, logged)
  },
}
