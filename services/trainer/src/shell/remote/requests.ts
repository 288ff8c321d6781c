/**
 * The requests of an update, made from the log alone: the batch, its turns, the binding, and the log-probabilities that were
 * recorded. The trainer records their hashes before it sends them; `verify` makes them again.
 */
import { InstarError, type BatchSealed, type SentRequest, type TrainerScored, type UpdateJournal } from '@instar/events'
import { sampledUpdate, type SampledUpdate } from '@instar/policy/sampled-update'
import { forwardBackwardRequests, optimStepRequest, rowFactor } from '@instar/tinker'
import type { Answer, Prepared, Reduction, RequestKind, ScoreRow, TrainRow } from '@instar/tinker/port'
import { stepSettings } from '../train-item.ts'
import { getLogprobs, itemsOf, scoreRow, type RemoteItem } from './items.ts'
import { capabilitiesOf, type ReadPorts } from './ports.ts'

/** Recorded before it is sent. */
export const unsent = ({ kind, seq, sha256 }: Prepared, of: SentRequest['of'] = 'trained'): SentRequest => ({
  kind,
  of,
  seq,
  sha256,
  response: null,
})
export const sent = (
  prepared: Prepared,
  { responseSha256 }: Pick<Answer<RequestKind>, 'responseSha256'>,
  of: SentRequest['of'] = 'trained',
): SentRequest => ({ ...unsent(prepared, of), response: responseSha256 })

/** Rows for the base model: every answer, then every answer with the hint in its prompt. */
export const referenceRows = (items: readonly RemoteItem[]): ScoreRow[] => [
  ...items.map(({ item }) => scoreRow(item.prompt, item.completion)),
  ...items.flatMap(({ item: { hintPrompt, completion } }) => (hintPrompt ? [scoreRow(hintPrompt, completion)] : [])),
]

/**
 * Rows whose loss under `importance_sampling`, Σ −exp(lp − logprobs) · advantages, has the gradient Σ gradient · ∇lp at lp =
 * logprobs. Tokens of the prompt have advantage 0.
 */
const trainRows = (
  items: readonly RemoteItem[],
  now: readonly ArrayLike<number>[],
  gradients: readonly ArrayLike<number>[],
  reduction: Reduction,
): TrainRow[] => {
  const rows = items.map(({ item }) => scoreRow(item.prompt, item.completion))
  const all = rows.reduce((sum, { targets }) => sum + targets.length, 0)
  return rows.map((row, at) => {
    const before = Array.from({ length: row.targets.length - (now[at]?.length ?? 0) }, () => 0)
    const factor = rowFactor(reduction, row.targets.length, rows.length, all)
    return {
      ...row,
      logprobs: [...before, ...Array.from(now[at] ?? [])],
      advantages: [...before, ...Array.from(gradients[at] ?? [], (gradient) => -gradient * factor)],
    }
  })
}

/** The items of a recorded scoring, and their log-probabilities in it. */
export const readScored = async (
  ports: ReadPorts,
  sealed: BatchSealed,
  scored: TrainerScored,
): Promise<{ items: RemoteItem[]; now: Float32Array[] }> => {
  const tokens = scored.rows.map((row) => row.tokens)
  const [items, now] = await Promise.all([
    itemsOf(ports, sealed, scored.rows),
    getLogprobs(ports.log, scored.logprobs, scored.blobsAt, tokens),
  ])
  return { items, now }
}

/** Log-probabilities of the base of a first scoring, without and with the hint; null where they were not used. */
export const readReferences = async (
  { log }: ReadPorts,
  { rows, base, teacher, blobsAt }: TrainerScored,
  items: readonly RemoteItem[],
): Promise<{ base: (Float32Array | null)[]; teacher: (Float32Array | null)[] }> => {
  const tokens = rows.map((row) => row.tokens)
  const hinted = items.map(({ item }) => item.hintPrompt !== null)
  const without = base && (await getLogprobs(log, base, blobsAt, tokens))
  const hints =
    teacher &&
    (await getLogprobs(
      log,
      teacher,
      blobsAt,
      tokens.filter((_, at) => hinted[at]),
    ))
  let next = 0
  return {
    base: tokens.map((_, at) => without?.[at] ?? null),
    teacher: tokens.map((_, at) => (hinted[at] ? (hints?.[next++] ?? null) : null)),
  }
}

/** What the step after `pass` computes from the recorded scorings up to it. */
export const updateOf = async (
  ports: ReadPorts,
  sealed: BatchSealed,
  journal: UpdateJournal,
  pass: number,
): Promise<SampledUpdate & { items: RemoteItem[]; now: Float32Array[] }> => {
  const [first, current] = [journal.scored[0]?.event, journal.scored[pass]?.event]
  if (!first || !current) throw new InstarError('internal', `batch ${sealed.number} has no scoring of pass ${pass}`)
  const { items, now } = await readScored(ports, sealed, current)
  const old = pass === 0 ? now : (await readScored(ports, sealed, first)).now
  const references = await readReferences(ports, first, items)
  const update = sampledUpdate(
    items.map(({ item }) => item),
    items.map((_, at) => ({
      old: old[at] ?? [],
      now: now[at] ?? [],
      base: references.base[at] ?? null,
      teacher: references.teacher[at] ?? null,
    })),
    stepSettings(sealed),
  )
  return { ...update, items, now }
}

/** The requests of a step: forward and backward passes, then Adam. */
export const stepRequests = (
  bound: { model: string; capabilities: string },
  seq: number,
  sealed: BatchSealed,
  {
    items,
    now,
    gradients,
  }: { items: readonly RemoteItem[]; now: readonly Float32Array[]; gradients: readonly Float64Array[] },
): (Prepared<'forward_backward'> | Prepared<'optim_step'>)[] => {
  const settings = stepSettings(sealed)
  const { wire, reduction } = capabilitiesOf(bound)
  const passes = forwardBackwardRequests(wire, bound.model, seq, trainRows(items, now, gradients, reduction))
  const adam = {
    learningRate: settings.learningRate,
    beta1: settings.beta1,
    beta2: settings.beta2,
    epsilon: settings.adamEpsilon ?? 1e-8,
    weightDecay: 0,
    gradClipNorm: settings.maxGradNorm,
  }
  return [...passes, optimStepRequest(bound.model, seq + passes.length, adam)]
}
