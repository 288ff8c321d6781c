/**
 * Computes a sealed batch on the learning engine: reads its turns and its parent from the log, stores the results as
 * blobs.
 */
import { lossMode } from '../core/loss-modes.ts'
import { dialectOf, parseJson } from '@instar/dialects'
import { InstarError, readWritten, weightLine, type BatchItem, type BatchSealed } from '@instar/events'
import { getBlob, putBlob, type EventLog, type TurnReader } from '@instar/log'
import type { Adapter, LearningEngine, Model, Parent, StepSettings, TrainItem } from '@instar/engine/port'
import { adapterFromWeights } from '@instar/policy'
import { rulesOf } from '../core/baseline.ts'
import type { Computed } from '../core/decide.ts'
import { hintOf, withHint } from '../core/hint.ts'
import type { TrainerState } from '../core/state.ts'

type ComputePorts = {
  log: EventLog
  reader: TurnReader
  learner: LearningEngine
  model: Model
  now: () => number
  signal: AbortSignal
}

export const compute = async (ports: ComputePorts, state: TrainerState, sealed: BatchSealed): Promise<Computed> => {
  const startedAt = ports.now()
  const items = await Promise.all(sealed.items.map((item) => trainItem(ports, item, sealed.loss)))
  const parent = await parentOf(ports, state, sealed)
  const result = await ports.learner.step(items, stepSettings(sealed), parent)
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

/**
 * One item of a step: recorded token ids and log-probabilities, and the rendered prompt with the hint if the loss uses
 * it. A prompt with a hint that exceeds the model's context together with the answer is left out (`hintPrompt` null).
 */
export const trainItem = async (
  ports: Pick<ComputePorts, 'reader' | 'model'>,
  item: BatchItem,
  loss: string,
): Promise<TrainItem> => {
  const mode = lossMode(loss)
  const turn = await ports.reader.record(item.turn)
  const prompt = await ports.reader.promptIds(item.turn)
  const hint = mode.hints ? hintOf(item) : null
  const hinting = hint
    ? hintIds(ports.model, turn.dialect, await ports.reader.body(item.turn), readWritten(hint))
    : null

  const hintPrompt = hinting && hinting.length + turn.ids.length <= ports.model.contextLength ? hinting : null
  return {
    prompt,
    completion: turn.ids,
    behaviourLogprobs: turn.logprobs,
    temperature: turn.sampling.temperature,
    advantage: mode.advantages ? item.advantage : 0,
    hintPrompt,
  }
}

/** Token ids of the request with the hint, rendered as by the gateway; null if this build rejects the recorded body. */
const hintIds = (model: Model, dialect: string, body: Uint8Array, hint: string): number[] | null => {
  try {
    const { messages, tools } = dialectOf(dialect).request(parseJson(body))
    return model.promptIds(withHint(messages, hint), tools.length > 0 ? { tools } : {})
  } catch (error) {
    if (error instanceof InstarError && error.code === 'bad_request') return null
    throw error
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
  const found = weightLine(state.weights, sealed.policy).versions.get(version)
  if (found?.adapter !== adapter)
    throw new InstarError(
      'missing_blob',
      `batch ${sealed.number} names adapter ${adapter} as its parent, but version ${version} has another adapter`,
      { version, adapter },
    )
  return {
    adapter: await loadAdapter(ports.log, adapter, found.blobsAt),
    state: optimizer === null ? null : await getBlob(ports.log, optimizer, found.blobsAt),
  }
}

const loadAdapter = async (log: EventLog, sha256: string, at: number): Promise<Adapter> =>
  adapterFromWeights(await getBlob(log, sha256, at))

/**
 * The settings of a step. The weight of the KL to the base grows with the advantages, so a batch without signal is not
 * an update by the KL alone. The loss `opd` has no advantages: since rules 2 its KL has the full weight
 * (`klFullAtAdvantage` 0). Batches of earlier rules are computed with the scaled weight.
 */
export const stepSettings = ({ settings, seed, loss }: BatchSealed): StepSettings => {
  const whole = !lossMode(loss).advantages && rulesOf(settings) >= 2
  return { ...(settings as StepSettings), ...(whole ? { klFullAtAdvantage: 0 } : {}), seed }
}
