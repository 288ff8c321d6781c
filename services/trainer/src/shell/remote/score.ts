/** A scoring of a batch's answers: the step that was recorded before is sent, then the forward passes. */
import {
  InstarError,
  updateLine,
  type BatchSealed,
  type BatchState,
  type SentRequest,
  type TrainerBound,
  type TrainerScored,
} from '@instar/events'
import { PassedTokens } from '@instar/policy/passed-tokens'
import { sampledDivergences } from '@instar/policy/sampled-loss'
import { forwardRequests, together } from '@instar/tinker'
import type { Answer, Prepared, ScoreRow } from '@instar/tinker/port'
import { answersIn, rowTokens } from '../../core/shared-rows.ts'
import { itemsOf, NOT_FINITE, putLogprobs, readItems, rowsOf, type RemoteItem } from './items.ts'
import { capabilitiesOf, sharesRows, type RemotePorts, type RemoteWork } from './ports.ts'
import {
  answerRows,
  readReferences,
  readScored,
  referenceRows,
  scoreRows,
  sent,
  stepRequests,
  updateOf,
  type Scored,
} from './requests.ts'

type Scoring = { logprobs: Float32Array[]; requests: SentRequest[] }

/** Sends forward passes in the order of their seqs; one array of log-probabilities for each row. */
const forward = async (
  { server, signal }: RemotePorts,
  bound: TrainerBound,
  of: SentRequest['of'],
  seq: number,
  rows: readonly ScoreRow[],
): Promise<Scoring> => {
  const model = of === 'trained' ? bound.model : bound.reference
  const prepared = forwardRequests(capabilitiesOf(bound).wire, model, seq, rows)
  const answers = await together(signal, (own) => prepared.map((one) => server.send(one, own)))
  return {
    logprobs: answers.flatMap(({ result }) => result.logprobs),
    requests: prepared.map((one, at) => sent(one, answers[at] as Answer<'forward'>, of)),
  }
}

const tokensOf = ({ rows, sequences }: Scored): ReturnType<typeof rowTokens> => rowTokens(rows, sequences)
const answersOf = ({ rows, sequences }: Scored, logprobs: readonly Float32Array[]): Float32Array[] =>
  answersIn(rows, sequences, logprobs)

/** Sends the recorded requests of the step before `pass`; the same bytes under the same seqs whenever it is repeated. */
const sendStep = async (
  ports: RemotePorts,
  { batch, binding }: RemoteWork,
  pass: number,
): Promise<{ requests: SentRequest[]; gradNorm: number | null; items: readonly RemoteItem[] }> => {
  const { journal, sealed } = batch
  const recorded = journal?.requested[pass - 1]?.event.requests
  if (!journal || !recorded?.[0]) throw new InstarError('internal', `batch ${sealed.number} has no request ${pass - 1}`)
  const update = await updateOf(ports, sealed, journal, pass - 1)
  const prepared: Prepared[] = stepRequests(binding.event, recorded[0].seq, sealed, update)
  if (prepared.some(({ sha256 }, at) => sha256 !== recorded[at]?.sha256) || prepared.length !== recorded.length)
    throw new InstarError(
      'trainer_seq_used',
      `The requests of batch ${sealed.number}, made again, are not those that were recorded: another build recorded them.`,
      { model: binding.event.model, seq: recorded[0].seq },
    )
  const answers = await together(ports.signal, (signal) => prepared.map((one) => ports.server.send(one, signal)))
  const { result } = answers.at(-1) as Answer<'optim_step'>
  // Its moments keep what the weights may not show. A server whose norms were none in the probe has no say.
  if (Number.isNaN(result.gradNorm) && capabilitiesOf(binding.event).gradNorm)
    throw new InstarError('update_not_finite', `the gradient of pass ${pass} has a norm that is not finite`)
  return {
    requests: prepared.map((one, at) => sent(one, answers[at]!)),
    gradNorm: result.gradNorm,
    items: update.items,
  }
}

/** The record of pass `pass`. */
export const score = async (ports: RemotePorts, work: RemoteWork, pass: number): Promise<TrainerScored> => {
  const { state, batch, binding } = work
  const { sealed, journal } = batch
  const first = pass === 0 ? null : (journal?.scored[0]?.event ?? null)
  const step = first ? await sendStep(ports, work, pass) : null
  const { items, dropped } = first
    ? { items: await itemsOf(ports, sealed, first.rows), dropped: [] }
    : await readItems(ports, sealed, capabilitiesOf(binding.event))
  if (items.length === 0) throw noItems(batch, dropped[0]?.reason)
  const shared = sharesRows(sealed, binding.event)
  const trained = answerRows(items, shared)
  const { plain, hinted } = referenceRows(first ? [] : items, shared)
  const referred = scoreRows(plain, hinted)
  const { event: bound, seq, referenceSeq } = binding
  const [own, reference] = await together(ports.signal, (signal) => [
    forward({ ...ports, signal }, bound, 'trained', seq, scoreRows(trained)),
    referred.length === 0
      ? Promise.resolve({ logprobs: [], requests: [] })
      : forward({ ...ports, signal }, bound, 'reference', referenceSeq, referred),
  ])
  const tokens = new PassedTokens()
  if (step) tokens.backward(tokensOf(answerRows(step.items, shared)))
  tokens.forward(tokensOf(trained))
  tokens.forward(tokensOf(plain))
  tokens.teacher(tokensOf(hinted))
  const answers = answersOf(trained, own.logprobs)
  const base = answersOf(plain, reference.logprobs.slice(0, plain.rows.length))
  const teacher = answersOf(hinted, reference.logprobs.slice(plain.rows.length))
  const scored = first ? keepAll(items, answers) : keepFinite(items, answers, base, teacher)
  if (scored.items.length === 0) throw nothingFinite(sealed, answers, base)
  const blobsAt = ports.now()
  const put = (parts: readonly Float32Array[]) => putLogprobs(ports.log, parts, blobsAt, ports.signal)
  return {
    type: 'TrainerScored',
    prev: updateLine(state.updates, state.policy).chain.tip,
    policy: state.policy,
    batch: batch.id,
    number: sealed.number,
    bound: binding.id,
    model: binding.event.model,
    pass,
    requests: [...(step?.requests ?? []), ...own.requests, ...reference.requests],
    rows: rowsOf(scored.items),
    dropped: [...dropped, ...scored.lost.map((turn) => ({ turn, reason: NOT_FINITE }))],
    logprobs: await put(scored.answers),
    base: scored.base.length === 0 ? null : await put(scored.base),
    teacher: scored.teacher.length === 0 ? null : await put(scored.teacher),
    blobsAt,
    figures: {
      ...(await divergences(ports, work, scored.answers, scored.items)),
      ...(typeof step?.gradNorm === 'number' && Number.isFinite(step.gradNorm) ? { gradNorm: step.gradNorm } : {}),
      ...tokens.figures,
    },
    at: ports.now(),
  }
}

/** Divergences from the first scoring; none in it. */
const divergences = async (
  ports: RemotePorts,
  { batch }: RemoteWork,
  now: readonly Float32Array[],
  items: readonly RemoteItem[],
): Promise<Record<string, number>> => {
  const first = batch.journal?.scored[0]?.event
  if (!first) return {}
  const [{ now: old }, references] = await Promise.all([
    readScored(ports, batch.sealed, first),
    readReferences(ports, first, items),
  ])
  const { parent, base } = sampledDivergences(
    now.map((own, at) => ({ now: own, old: old[at] ?? [], base: references.base[at] ?? null })),
  )
  return { klParent: parent, ...(Number.isFinite(base) ? { klBase: base } : {}) }
}

type Kept = {
  items: readonly RemoteItem[]
  answers: Float32Array[]
  base: Float32Array[]
  teacher: Float32Array[]
  lost: string[]
}

const isFinite = (values: Float32Array | undefined): boolean => values?.every(Number.isFinite) ?? true

/** A later pass has the rows of the first. */
const keepAll = (items: readonly RemoteItem[], answers: Float32Array[]): Kept => {
  const at = answers.findIndex((values) => !isFinite(values))
  if (at >= 0)
    throw new InstarError('update_not_finite', `after a step the log-probabilities of turn ${at} are not finite`, {})
  return { items, answers, base: [], teacher: [], lost: [] }
}

/** Leaves out the items with a log-probability that is not finite. `hinted`: of the items with a hint, in their order. */
const keepFinite = (
  items: readonly RemoteItem[],
  answers: readonly Float32Array[],
  plain: readonly Float32Array[],
  hinted: readonly Float32Array[],
): Kept => {
  let hints = 0
  const kept: Kept & { items: RemoteItem[] } = { items: [], answers: [], base: [], teacher: [], lost: [] }
  items.forEach((one, at) => {
    const own = answers[at] as Float32Array
    const base = plain[at]
    const teacher = one.item.hintPrompt ? hinted[hints++] : undefined
    if (![own, base, teacher].every(isFinite)) return void kept.lost.push(one.turn)
    kept.items.push(one)
    kept.answers.push(own)
    if (base) kept.base.push(base)
    if (teacher) kept.teacher.push(teacher)
  })
  return kept
}

/**
 * Before a step. Where answers have some under the model and some under the base, each turn lacks one of its own, as with a hint
 * that overflows: `update_not_finite`. Else `notFinite` says who may be at fault: `base`, the base model has none, as with prompts
 * that overflow a server's half precision; `parent`, the version that the batch continues has none, and the base has some.
 * `turns`: of one, it may be the turn's fault.
 */
const nothingFinite = (
  { number, parent }: BatchSealed,
  answers: readonly Float32Array[],
  base: readonly Float32Array[],
): InstarError => {
  const has = { base: base.some(isFinite), own: answers.some(isFinite) }
  if (has.base && has.own)
    return new InstarError('update_not_finite', `no turn of batch ${number} has finite log-probabilities alone`, {})
  const who = !has.base ? 'base' : parent.adapter !== null ? 'parent' : null
  const whose = who === 'base' ? ' under the base model' : who === 'parent' ? ` under version ${parent.version}` : ''
  return new InstarError(
    'trainer_mismatch',
    `The training server has no finite log-probabilities of an answer of batch ${number}${whose}`,
    { notFinite: who, turns: answers.length },
  )
}

const noItems = ({ sealed }: BatchState, reason = 'bad_request'): InstarError =>
  new InstarError('bad_request', `no turn of batch ${sealed.number} can be trained on (${reason})`, { reason })
