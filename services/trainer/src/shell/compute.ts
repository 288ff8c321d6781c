/**
 * Computes a sealed batch on the learning engine: reads its turns and its parent from the log, stores the results as
 * blobs.
 */
import { baseVersion, InstarError, weightLine, type BatchSealed, type WeightsState } from '@instar/events'
import { getBlob, putBlob, type EventLog, type TurnReader } from '@instar/log'
import type { Adapter, LearningEngine, Model, Parent } from '@instar/engine/port'
import { adapterFromWeights } from '@instar/policy'
import type { Computed } from '../core/decide.ts'
import type { TrainerState } from '../core/state.ts'
import { readRemoteState } from './remote/remote-state.ts'
import { stepBatch } from './step-items.ts'

type ComputePorts = {
  log: EventLog
  reader: TurnReader
  learner: LearningEngine
  model: Model
  now: () => number
  signal: AbortSignal
}

export const compute = async (
  ports: ComputePorts,
  state: TrainerState,
  sealed: BatchSealed,
  onProgress?: (share: number) => void,
): Promise<Computed> => {
  const startedAt = ports.now()
  const parent = await parentOf(ports, state, sealed)
  const result = await stepBatch(ports, sealed, parent, onProgress)
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

/** Adapter and optimizer state that the batch names, read from the log. Throws `missing_blob`. */
export const parentOf = async (
  ports: Pick<ComputePorts, 'log'>,
  state: TrainerState,
  sealed: BatchSealed,
): Promise<Parent> => {
  const { version, adapter, state: optimizer } = sealed.parent
  if (adapter === null) return { adapter: null, state: null }
  const base = await baseAdapter(ports.log, state.weights, sealed.policy)
  const found = weightLine(state.weights, sealed.policy).versions.get(version)
  if (found?.adapter !== adapter)
    throw new InstarError(
      'missing_blob',
      `batch ${sealed.number} names adapter ${adapter} as its parent, but version ${version} has another adapter`,
      { version, adapter },
    )
  return {
    adapter: await loadAdapter(ports.log, adapter, found.blobsAt),
    state: optimizer === null ? null : optimizerState(await getBlob(ports.log, optimizer, found.blobsAt)),
    base,
  }
}

/** The adapter that is a part of the line's base, read from the log; null: it has none. Throws `missing_blob`. */
export const baseAdapter = async (log: EventLog, weights: WeightsState, policy: string): Promise<Adapter | null> => {
  const version = baseVersion(weights, policy)
  return version?.adapter ? loadAdapter(log, version.adapter, version.blobsAt) : null
}

/** Null for the state of a training server, whose optimizer stays there: that of the embedded trainer then starts anew. */
export const optimizerState = (bytes: Uint8Array): Uint8Array | null => (readRemoteState(bytes) ? null : bytes)

const loadAdapter = async (log: EventLog, sha256: string, at: number): Promise<Adapter> =>
  adapterFromWeights(await getBlob(log, sha256, at))
