/**
 * A sealed batch through the learning engine: turns read back whole, parent restored from the log, results stored as
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
import { withHint } from '../core/hint.ts'
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

/** The recorded ids and log-probs as they are; the hint's prompt is rendered, it was never sampled from. */
export const trainItem = async (
  ports: Pick<ComputePorts, 'reader' | 'model'>,
  item: BatchItem,
  loss: string,
): Promise<TrainItem> => {
  const mode = lossMode(loss)
  const turn = await ports.reader.record(item.turn)
  const prompt = await ports.reader.promptIds(item.turn)
  const hinted = mode.hints && item.reward < 0 && item.hint !== null
  const hinting =
    hinted && item.hint
      ? hintIds(ports.model, turn.dialect, await ports.reader.body(item.turn), readWritten(item.hint))
      : null
  // A hint that no longer fits beside the answer is left out: the rest of the turn is trained all the same.
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

/** The request in its own dialect, as the gateway rendered it; null for a body that no longer reads as one. */
const hintIds = (model: Model, dialect: string, body: Uint8Array, hint: string): number[] | null => {
  try {
    const { messages, tools } = dialectOf(dialect).request(parseJson(body))
    return model.promptIds(withHint(messages, hint), tools.length > 0 ? { tools } : {})
  } catch (error) {
    if (error instanceof InstarError && error.code === 'bad_request') return null
    throw error
  }
}

/** The weights and optimizer that the batch names, from the log: memory is only a cache of it. */
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
      `version ${version} is not the adapter ${adapter} that batch ${sealed.number} names`,
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
 * The KL to the base grows with the advantages, so that a batch without signal is no update of KL alone. A loss
 * without advantages (`opd`) is not scaled so: its signal are the hints, and `klFullAtAdvantage` 0 gives the KL its full
 * weight. Batches sealed under rules before 2 keep the scale that they were computed with.
 */
export const stepSettings = ({ settings, seed, loss }: BatchSealed): StepSettings => {
  const whole = !lossMode(loss).advantages && rulesOf(settings) >= 2
  return { ...(settings as StepSettings), ...(whole ? { klFullAtAdvantage: 0 } : {}), seed }
}
