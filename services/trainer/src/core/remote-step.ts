/**
 * What a trainer on a Tinker server does next for a sealed batch, from the records alone: bind a model, score the batch's
 * answers, request a step, and finish. Each ends with one record on the chain `updates`, which is read back before the next;
 * a record of a trainer that another one has replaced does not count, so it never sends what it has not recorded.
 */
import {
  batchOfUpdate,
  updateLine,
  weightLine,
  type BatchSealed,
  type BatchState,
  type InstarError,
  type Settings,
  type TrainerBinding,
  type UpdatesState,
  type WeightsState,
} from '@instar/events'

export type RemoteStep =
  /** `resume`: the last model has the weights that the batch needs; else a new model is created. */
  | { do: 'bind'; resume: boolean }
  /** Sends the recorded requests of the step before, if there is one; then the forward passes. */
  | { do: 'score'; pass: number }
  /** Records the requests of the step after the pass, and sends nothing. */
  | { do: 'request'; pass: number }
  | { do: 'finish' }

/** Whether the model of the binding has the weights from which the batch is computed. */
const fits = ({ event, batch, state }: TrainerBinding, { id, sealed }: BatchState): boolean =>
  batch === id ||
  (batch === null &&
    state === sealed.parent.state &&
    (sealed.parent.adapter !== null || event.rank === (sealed.settings.rank ?? event.rank)))

type Lines = { updates: UpdatesState; weights: WeightsState; policy: string }

/**
 * Rank of a new model for the batch: that of the parent's adapter, which an update continues, as on the embedded trainer; of a
 * line that has none yet, that of the batch's settings.
 */
export const rankOf = ({ updates, weights, policy }: Lines, { parent, settings }: BatchSealed): number => {
  const version = parent.adapter === null ? null : weightLine(weights, policy).versions.get(parent.version)
  const trained = batchOfUpdate(updateLine(updates, policy), version?.update ?? '')
  return trained?.journal?.binding?.rank ?? settings.rank ?? 1
}

/** A step beyond a bound of the trust region is the last one of its batch: there is no line search on a server. */
const isBeyond = (figures: Readonly<Record<string, number>>, settings: Settings): boolean =>
  (figures.klParent ?? 0) > (settings.klParentMax ?? Infinity) ||
  (figures.klBase ?? 0) > (settings.klBaseMax ?? Infinity)

/**
 * `mine`: record id of the TrainerBound of this process; null: it has none. `lost`: models that this process has found
 * unusable.
 */
export const remoteStep = (
  { updates, policy }: { updates: UpdatesState; policy: string },
  batch: BatchState,
  mine: string | null,
  lost: ReadonlySet<string>,
): RemoteStep => {
  const { binding } = updateLine(updates, policy)
  const usable = binding !== null && !lost.has(binding.event.model) && fits(binding, batch)
  if (!usable || binding.id !== mine) return { do: 'bind', resume: usable }
  const journal = batch.journal?.model === binding.event.model ? batch.journal : null
  const scored = journal?.scored.length ?? 0
  const requested = journal?.requested.length ?? 0
  if (scored === requested) return { do: 'score', pass: scored }
  const { epochs = 1 } = batch.sealed.settings
  const beyond = requested > 0 && isBeyond(journal?.scored.at(-1)?.event.figures ?? {}, batch.sealed.settings)
  return requested >= epochs || beyond ? { do: 'finish' } : { do: 'request', pass: requested }
}

/** Bounds of the change of the learning rate from one batch to the next. */
const LEAST_CHANGE = 0.25
const MOST_CHANGE = 2

/**
 * The settings of the next batch after an update on a server. Its learning rate follows from the last one and the KL to the
 * parent that came of it, which grows about with the square of the rate: a step beyond `klParentMax` is followed by smaller
 * ones, and the rate rises again, at most to that of the settings. `last`: of the line.
 */
export const withLearningRate = (settings: Settings, last: BatchState | undefined): Settings => {
  const before = last?.sealed.settings
  const kl = last?.update?.event.figures.klParent
  const { learningRate, klParentMax } = settings
  if (!last?.update?.event.remote || !before?.learningRate || kl === undefined || !learningRate) return settings
  const bound = before.klParentMax ?? klParentMax ?? Infinity
  const change = kl > 0 && Number.isFinite(bound) ? Math.sqrt((0.9 * bound) / kl) : MOST_CHANGE
  const rate = before.learningRate * Math.min(Math.max(change, LEAST_CHANGE), MOST_CHANGE)
  return { ...settings, learningRate: Math.min(learningRate, rate) }
}

/** Statuses that say that the request itself is wrong. */
const BAD_INPUT: readonly unknown[] = [400, 413, 422]
/** Requests whose contents are the batch's; others are the same for each batch. */
const OF_BATCH = /^(the result of )?(forward|forward_backward|optim_step)$/

/**
 * Whether the batch after `sealed` would ask for another rank, `configured`. A batch asks for its rank however often it is
 * repeated, so that one of a rank that the server does not take would hold the line for ever: it fails if this is so.
 */
export const isRankOfBatch = (lines: Lines, sealed: BatchSealed, configured: number): boolean => {
  const { parent } = sealed
  const isHead = weightLine(lines.weights, lines.policy).head === parent.version
  return rankOf(lines, sealed) !== configured && (parent.adapter === null || !isHead)
}

/**
 * Whether an error of `step` would not meet the next batch as well: not an answer that does not fit its request, not a refusal
 * of key, billing, session or model, and not one while the line is taken up.
 */
export const isRefusalOfBatch = (
  { code, details }: Pick<InstarError, 'code' | 'details'>,
  { do: what }: RemoteStep,
): boolean => {
  if (what === 'bind' || code === 'trainer_mismatch' || (what === 'finish' && code === 'bad_checkpoint')) return false
  if (code !== 'trainer_refused') return true
  const { status, request, category } = details
  // `category` `user`: the request ran, and its contents made it fail.
  return category === 'user' || (BAD_INPUT.includes(status) && OF_BATCH.test(String(request)))
}
