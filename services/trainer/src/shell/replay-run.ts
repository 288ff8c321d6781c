/** What both kinds of replay share: ports, progress, report, and the computation of a batch. */
import { weightLine, type BatchSealed, type TurnScored } from '@instar/events'
import type { createTurnReader, EventLog } from '@instar/log'
import type { Adapter, LearningEngine, Model, Parent, StepResult } from '@instar/engine/port'
import type { AuditState } from '../core/audit-state.ts'
import { PROVES, type Mode } from '../core/modes.ts'
import type { ReplayOptions } from '../core/replay.ts'
import type { AuditStart, Trusted } from './audit.ts'
import type { Branch } from './branch.ts'
import { stepBatch } from './step-items.ts'

/** `equal`: as in the report, for the batches so far. */
export type ReplayProgress = {
  phase: 'judging' | 'training'
  done: number
  total: number
  equal: boolean | null
  elapsedMs: number
  /** An estimate from the mean duration of the batches or turns so far; 0 before the first. */
  remainingMs: number
}

/**
 * `equal`: whether every adapter is bit-equal to the recorded one; null with changed settings, and if the engine is not
 * the recorded one. `first`: the first batch with another adapter. `apart`: with another engine, the batch with the
 * largest distance (`adapterDistance`) from its recorded adapter. `unreadable`: the number of malformed records, which
 * are skipped as by the services. `trusted`: the checkpoint that the state before its positions is from; null: the log was read
 * from its start. `adapter`: SHA-256 of the last version's adapter.
 */
export type ReplayReport = {
  branch: string
  equal: boolean | null
  mode: Extract<Mode, 'recompute' | 'tolerance'>
  /** What the mode proves; null where nothing is compared. */
  proves: string | null
  batches: number
  versions: number
  unreadable: number
  first: { batch: number; recorded: string; found: string } | null
  apart: { batch: number; distance: number } | null
  trusted: Trusted | null
  adapter: string | null
  wallMs: number
}

/** A judge's verdict on a turn. */
type Judgement = {
  reward: number | null
  judge: string | null
  hint: string | null
  reason: string | null
  verdicts: TurnScored['verdicts']
}
/**
 * `next`: the turn whose request holds the next state. `shown`: the candidate that it follows, if `turn` was not shown.
 */
export type Rescore = (turn: string, context: { next: string; shown: string | null }) => Promise<Judgement>

export type ReplayPorts = {
  log: EventLog
  learner: LearningEngine
  model: Model
  /** Milliseconds since the epoch. */
  now: () => number
  signal: AbortSignal
  /** The checkpoint from which the log is read; absent: from its start. */
  start?: AuditStart
  /** The judge that `--judge` names; null: there is none of this name. */
  rescore?: (judge: string) => Rescore | null
  onProgress?: (progress: ReplayProgress) => void
}

export type ReplayRun = {
  ports: ReplayPorts
  state: AuditState
  branch: Branch
  reader: ReturnType<typeof createTurnReader>
  startedAt: number
  /** The version at which the branch starts. */
  from: number
  /** The adapter that is a part of the base; null: there is none. */
  base: Adapter | null
  unreadable: number
  trusted: Trusted | null
}

export const NOTHING_TO_TRAIN = 'the range has no batch to train on'

export const computeBatch = async (run: ReplayRun, sealed: BatchSealed, parent: Parent): Promise<StepResult> => {
  run.ports.signal.throwIfAborted()
  return stepBatch({ ...run.ports, reader: run.reader }, sealed, { ...parent, base: run.base })
}

export const reportProgress = (
  { ports, startedAt }: ReplayRun,
  phase: ReplayProgress['phase'],
  done: number,
  total: number,
  equal: boolean | null,
): void => {
  const elapsedMs = ports.now() - startedAt
  ports.onProgress?.({
    phase,
    done,
    total,
    equal,
    elapsedMs,
    remainingMs: done > 0 ? (elapsedMs / done) * (total - done) : 0,
  })
}

export const replayReport = (
  { ports, state, branch, startedAt, unreadable, trusted }: ReplayRun,
  options: ReplayOptions,
  equal: boolean | null,
  batches: number,
  { first, apart }: Pick<ReplayReport, 'first' | 'apart'>,
): ReplayReport => ({
  branch: options.branch,
  equal,
  mode: apart ? 'tolerance' : 'recompute',
  proves: apart ? PROVES.tolerance : equal === null ? null : PROVES.recompute,
  batches,
  versions: weightLine(state.weights, branch.key).last,
  unreadable,
  first,
  apart,
  trusted,
  adapter: branch.head().adapter,
  wallMs: ports.now() - startedAt,
})
