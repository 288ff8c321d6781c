/**
 * The requests of an update, made from the log alone: the batch, its turns, the binding, and the log-probabilities that were
 * recorded. The trainer records their hashes before it sends them; `verify` makes them again.
 */
import { InstarError, type BatchSealed, type SentRequest, type TrainerScored, type UpdateJournal } from '@instar/events'
import { sampledUpdate, type SampledUpdate } from '@instar/policy/sampled-update'
import { forwardBackwardRequests, optimStepRequest, rowFactor } from '@instar/tinker'
import type { Answer, Prepared, Reduction, RequestKind, ScoreRow, TrainRow } from '@instar/tinker/port'
import { stepSettings } from '../train-item.ts'
import { answerStart, sharedRows, type Sequence, type SharedRow } from '../../core/shared-rows.ts'
import { getLogprobs, itemsOf, rowOf, type RemoteItem } from './items.ts'
import { capabilitiesOf, sharesRows, type ReadPorts } from './ports.ts'

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

/** Answers to score, and the rows that hold them. */
export type Scored = { sequences: readonly Sequence[]; rows: readonly SharedRow[] }
const scored = (sequences: readonly Sequence[], shared: boolean): Scored => ({
  sequences,
  rows: sharedRows(sequences, shared),
})
export const answerRows = (items: readonly RemoteItem[], shared: boolean): Scored =>
  scored(
    items.map(({ item }) => item),
    shared,
  )

/** For the base model: every answer, and every answer with the hint in its prompt, whose rows follow. */
export const referenceRows = (items: readonly RemoteItem[], shared: boolean): { plain: Scored; hinted: Scored } => ({
  plain: answerRows(items, shared),
  hinted: scored(
    items.flatMap(({ item: { hintPrompt, completion } }) => (hintPrompt ? [{ prompt: hintPrompt, completion }] : [])),
    shared,
  ),
})
export const scoreRows = (...parts: readonly Scored[]): ScoreRow[] => parts.flatMap(({ rows }) => rows.map(rowOf))

/**
 * Rows whose loss under `importance_sampling`, Σ −exp(lp − logprobs) · advantages, has the gradient Σ gradient · ∇lp at lp =
 * logprobs. Tokens of the prompt have advantage 0.
 */
const trainRows = (
  { sequences, rows }: Scored,
  now: readonly ArrayLike<number>[],
  gradients: readonly ArrayLike<number>[],
  reduction: Reduction,
): TrainRow[] => {
  const all = rows.reduce((sum, { ids }) => sum + ids.length - 1, 0)
  return rows.map((shared) => {
    const row = rowOf(shared)
    const factor = rowFactor(reduction, row.targets.length, rows.length, all)
    const logprobs = row.targets.map(() => 0)
    const advantages = row.targets.map(() => 0)
    for (const index of shared.members) {
      const start = sequences[index] ? answerStart(sequences[index]) : 0
      Array.from(now[index] ?? [], (value, at) => (logprobs[start + at] = value))
      // Two answers that are equal have their gradients in one place.
      Array.from(
        gradients[index] ?? [],
        (gradient, at) => (advantages[start + at] = (advantages[start + at] ?? 0) - gradient * factor),
      )
    }
    return { ...row, logprobs, advantages }
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
  const rows = trainRows(answerRows(items, sharesRows(sealed, bound)), now, gradients, reduction)
  const passes = forwardBackwardRequests(wire, bound.model, seq, rows)
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
