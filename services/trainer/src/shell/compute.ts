/**
 * Computes a sealed batch on the learning engine: reads its turns and its parent from the log, stores the results as
 * blobs.
 */
import {
  baseVersion,
  batchOfUpdate,
  InstarError,
  updateLine,
  weightLine,
  type BatchSealed,
  type WeightsState,
} from '@instar/events'
import { getBlob, putBlob, type EventLog, type TurnReader } from '@instar/log'
import type { Adapter, LearningEngine, Model, Parent, StepResult } from '@instar/engine/port'
import { adapterFromWeights } from '@instar/policy'
import type { Ahead } from '../core/ahead.ts'
import type { Computed } from '../core/decide.ts'
import type { TrainerState } from '../core/state.ts'
import { readRemoteState } from './remote/remote-state.ts'
import { stepBatch } from './step-items.ts'

export type ComputePorts = {
  log: EventLog
  reader: TurnReader
  learner: LearningEngine
  model: Model
  now: () => number
  signal: AbortSignal
}

/** Throws `parent_lost` where the log does not hold the parent's adapter or state. */
export const compute = async (
  ports: ComputePorts,
  state: TrainerState,
  sealed: BatchSealed,
  onProgress?: (share: number) => void,
): Promise<Computed> => {
  const startedAt = ports.now()
  parentVersion(state, sealed)
  const parent = await readParent(sealed, () => parentOf(ports, state, sealed))
  return store(ports, { startedAt, result: await stepBatch(ports, sealed, parent, onProgress) })
}

export type Step = { startedAt: number; result: StepResult }

/** The step of a batch whose parent is a candidate, of which no version is on the log. */
export const computeAhead = async (
  ports: ComputePorts,
  state: TrainerState,
  { update, sealed }: Ahead,
  onProgress?: (share: number) => void,
): Promise<Step> => {
  const startedAt = ports.now()
  const candidate = batchOfUpdate(updateLine(state.updates, sealed.policy), update)?.update?.event
  if (!candidate) throw new InstarError('internal', `the update ${update} is not on the log`)
  const parent = await readParent(sealed, () => adapterAndState(ports.log, state, sealed, candidate.blobsAt))
  return { startedAt, result: await stepBatch(ports, sealed, parent, onProgress) }
}

/** Stores what a step has computed, for its record. */
export const store = async (
  ports: Pick<ComputePorts, 'log' | 'now' | 'signal'>,
  { startedAt, result }: Step,
): Promise<Computed> => {
  const blobsAt = ports.now()
  await putBlob(ports.log, result.state, blobsAt, ports.signal)
  await putBlob(ports.log, result.adapter.weights, blobsAt, ports.signal)
  return {
    adapter: result.adapter.sha256,
    adapterBytes: result.adapter.weights.length,
    state: result.stateSha256,
    stateBytes: result.state.length,
    blobsAt,
    fingerprint: result.fingerprint,
    figures: { ...result.figures },
    startedAt,
  }
}

/** The version that the batch names as its parent; null: the base. Throws `missing_blob` if it has another adapter. */
const parentVersion = (state: TrainerState, { number, parent, policy }: BatchSealed): { blobsAt: number } | null => {
  const { version, adapter } = parent
  if (adapter === null) return null
  const found = weightLine(state.weights, policy).versions.get(version)
  if (found?.adapter === adapter) return found
  throw new InstarError(
    'missing_blob',
    `batch ${number} names adapter ${adapter} as its parent, but version ${version} has another adapter`,
    { version, adapter },
  )
}

/**
 * Runs `read`, which reads the parent's bytes. What the log does not hold of them is not this batch's fault: every batch on
 * that version would fail. Such an error is thrown as `parent_lost`, which is retried.
 */
export const readParent = async <T>({ parent }: BatchSealed, read: () => Promise<T>): Promise<T> => {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof InstarError) || error.retryable || error.code === 'internal') throw error
    const message = `Version ${parent.version}, which training continues from, cannot be read: ${error.message}`
    throw new InstarError('parent_lost', message, { ...error.details, version: parent.version }, { cause: error })
  }
}

/** Adapter and optimizer state that the batch names, read from the log. Throws `missing_blob`. */
export const parentOf = async (
  ports: Pick<ComputePorts, 'log'>,
  state: TrainerState,
  sealed: BatchSealed,
): Promise<Parent> => {
  if (sealed.parent.adapter === null) return { adapter: null, state: null }
  return adapterAndState(ports.log, state, sealed, parentVersion(state, sealed)?.blobsAt ?? 0)
}

const adapterAndState = async (
  log: EventLog,
  { weights }: Pick<TrainerState, 'weights'>,
  { parent: { adapter, state: optimizer }, policy }: BatchSealed,
  blobsAt: number,
): Promise<Parent> => ({
  base: await baseAdapter(log, weights, policy),
  adapter: adapter === null ? null : await loadAdapter(log, adapter, blobsAt),
  state: optimizer === null ? null : optimizerState(await getBlob(log, optimizer, blobsAt)),
})

/** The adapter that is a part of the line's base, read from the log; null: it has none. Throws `missing_blob`. */
export const baseAdapter = async (log: EventLog, weights: WeightsState, policy: string): Promise<Adapter | null> => {
  const version = baseVersion(weights, policy)
  return version?.adapter ? loadAdapter(log, version.adapter, version.blobsAt) : null
}

/** Null for the state of a training server, whose optimizer stays there: that of the embedded trainer then starts anew. */
export const optimizerState = (bytes: Uint8Array): Uint8Array | null => (readRemoteState(bytes) ? null : bytes)

const loadAdapter = async (log: EventLog, sha256: string, at: number): Promise<Adapter> =>
  adapterFromWeights(await getBlob(log, sha256, at))
