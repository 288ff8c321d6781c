/** The scorer's state in a snapshot: the folds, what is still to be scored, which sessions are watched. */
import { foldVersion, storedByPolicy, storedScores, storedTurns, storedWeights, type Snapshot } from '@instar/log'
import type { AskedTable } from '../core/asked-alone.ts'
import type { RecordTable } from '../core/own-record.ts'
import { initialIdle } from '../core/idle.ts'
import { initialState, type ScorerState } from '../core/state.ts'

/** Changes with the sources of which the stored state is a function. */
export const snapshotVersion = (): string =>
  foldVersion(
    [
      '../core/state.ts',
      '../core/asked-alone.ts',
      '../core/claims.ts',
      '../core/duplicates.ts',
      '../core/own-record.ts',
      '../core/policy-bound.ts',
      '../core/need.ts',
      '../core/idle.ts',
      './snapshot.ts',
    ].map((name) => new URL(name, import.meta.url)),
  )

export const stateOfSnapshot = (snapshot: Snapshot): ScorerState => ({
  ...initialState(),
  turns: storedTurns(snapshot),
  scores: storedByPolicy((policy) => storedScores(snapshot, policy)),
  weights: storedWeights(snapshot),
  claims: snapshot.resident('claims'),
  seen: snapshot.resident('seen'),
  records: snapshot.resident<Parameters<RecordTable['set']>[1]>('records'),
  questions: snapshot.resident<Parameters<AskedTable['set']>[1]>('questions'),
  askers: snapshot.resident('askers'),
  needed: snapshot.queue('needed'),
  idle: { ...initialIdle(), watched: snapshot.resident<number>('idle') },
})
