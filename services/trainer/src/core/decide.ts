/**
 * One batch at a time: the next is sealed when the last is settled (failed, or its verdict read) and learning is not
 * frozen; it may be computed before (ahead.ts). A decision on an outdated state is harmless: the chain of `updates` ignores its record.
 */
import {
  InstarError,
  updateLine,
  weightLine,
  type BatchSealed,
  type BatchState,
  type UpdateComputed,
  type UpdateFailed,
} from '@instar/events'
import { chooseAhead, sealAhead, type Ahead } from './ahead.ts'
import { hasSignal, sealBatch, countWaiting, type BatchSettings } from './batch.ts'
import type { TrainerState } from './state.ts'

export type Decision =
  /** `ahead`: the batch was chosen, and perhaps computed, before its parent became the head. */
  | { do: 'append'; event: BatchSealed | UpdateFailed; ahead?: boolean }
  /** Compute this batch while the gate measures the candidate that is its parent. */
  | { do: 'ahead'; ahead: Ahead }
  /** Compute the sealed batch with this record id, then append the record that `computed` returns. */
  | { do: 'compute'; batch: string; sealed: BatchSealed }
  | { do: 'wait'; why: 'standby' | 'no_line' | 'not_live' | 'verdict' | 'frozen' | 'turns' | 'share' }

/**
 * `assigned` false: another trainer holds the policy's partition, and this one is a standby. `now`: ms since the epoch.
 * `ahead`: the batch that was computed ahead last; null: none yet; undefined: this trainer computes none.
 */
export const decide = (
  state: TrainerState,
  options: BatchSettings,
  now: number,
  assigned = true,
  ahead?: Ahead | null,
): Decision => {
  if (!assigned) return { do: 'wait', why: 'standby' }
  const weights = weightLine(state.weights, state.policy)
  const updates = updateLine(state.updates, state.policy)
  if (!weights.started) return { do: 'wait', why: 'no_line' }
  if (weights.started.mode !== 'live') return { do: 'wait', why: 'not_live' }
  const last = updates.byId.get(updates.last)
  if (last?.status === 'sealed') {
    if (!hasSignal(last.sealed)) return { do: 'append', event: failureOf(state, last, 'no_signal', now) }
    return { do: 'compute', batch: last.id, sealed: last.sealed }
  }
  if (last?.status === 'computed' && !weights.verdicts.has(last.update?.id ?? '')) {
    const mayCompute = ahead !== undefined && ahead?.update !== last.update?.id && !weights.frozen
    const next = mayCompute ? chooseAhead(state, options, now) : null
    if (next && hasSignal(next.sealed)) return { do: 'ahead', ahead: next }
    return { do: 'wait', why: 'verdict' }
  }
  if (weights.frozen) return { do: 'wait', why: 'frozen' }
  const chosen = ahead ? sealAhead(state, options, ahead, now) : null
  if (chosen) return { do: 'append', event: chosen, ahead: true }
  const sealed = sealBatch(state, options, now)
  if (sealed) return { do: 'append', event: sealed }
  const { usable, held } = countWaiting(state, options, now)
  return { do: 'wait', why: usable >= options.batchSize && usable - held < options.batchSize ? 'share' : 'turns' }
}

export type Computed = Pick<
  UpdateComputed,
  'adapter' | 'adapterBytes' | 'state' | 'stateBytes' | 'blobsAt' | 'fingerprint' | 'figures' | 'startedAt'
>

/**
 * The batch if it has no outcome yet and is the last one; null otherwise. The state advances while a batch is computed, by
 * records of another trainer too: what is then found out about the batch is discarded.
 */
export const openBatch = (state: Pick<TrainerState, 'updates' | 'policy'>, batch: string): BatchState | null => {
  const line = updateLine(state.updates, state.policy)
  const last = line.byId.get(line.last)
  return last?.id === batch && last.status === 'sealed' ? last : null
}

/** The record of a finished computation; null if the batch is not open. */
export const computed = (state: TrainerState, batch: string, result: Computed, now: number): UpdateComputed | null => {
  const open = openBatch(state, batch)
  if (!open) return null
  return {
    type: 'UpdateComputed',
    prev: updateLine(state.updates, state.policy).chain.tip,
    policy: state.policy,
    batch,
    number: open.sealed.number,
    ...result,
    at: now,
  }
}

const failureOf = (state: TrainerState, { id, sealed }: BatchState, reason: string, now: number): UpdateFailed => ({
  type: 'UpdateFailed',
  prev: updateLine(state.updates, state.policy).chain.tip,
  policy: state.policy,
  batch: id,
  number: sealed.number,
  reason,
  at: now,
})

/** The record of a batch whose computation failed; null if the batch is not open. */
export const failed = (state: TrainerState, batch: string, reason: string, now: number): UpdateFailed | null => {
  const open = openBatch(state, batch)
  return open && failureOf(state, open, reason, now)
}

/** Errors in taking up the parent's state: every batch with that parent has them. */
const PARENT_FAULTS: readonly string[] = ['parent_lost', 'trainer_state_lost', 'trainer_failed']
const isParentFault = ({ code, details }: InstarError): boolean =>
  PARENT_FAULTS.includes(code) || (code === 'trainer_denied' && (details.kind ?? details.request) === 'load_weights')

/**
 * The record of a batch whose parent's state is gone and is no longer the head, so that the next batch has another parent;
 * null: the error is another one, or the parent is the head, and the line waits until its state is back.
 */
export const failedWithParent = (
  state: TrainerState,
  batch: string,
  error: unknown,
  now: number,
): UpdateFailed | null => {
  if (!(error instanceof InstarError) || !isParentFault(error)) return null
  const parent = updateLine(state.updates, state.policy).byId.get(batch)?.sealed.parent.version
  if (weightLine(state.weights, state.policy).head === parent) return null
  return failed(state, batch, `${error.code}: ${error.message}`, now)
}
