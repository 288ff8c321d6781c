/** Measures a candidate against the serving version on the evaluator. Figures: core/gate.ts. */
import { type BatchSealed, type LineStarted, type UpdateComputed, type VersionState } from '@instar/events'
import { getBlob, ifReadable, type EventLog, type TurnReader } from '@instar/log'
import type { Adapter, AdapterSha, Evaluation, Sampling } from '@instar/engine/port'
import { adapterFromWeights } from '@instar/policy'
import type { PublisherConfig } from '../config.ts'
import { askedWith } from '../core/asked-length.ts'
import { batteryOf, batterySettings } from '../core/battery.ts'
import { isUsable } from '../core/evidence.ts'
import { extentSettings } from '../core/line-extent.ts'
import { fallsToReject } from '../core/falls.ts'
import type { Figures } from '../core/gate.ts'
import { ask, askBase, cutShare, fixedPrompts, SEED, tokensOf, type BaseProgress, type MeasurePorts } from './base.ts'
import { measureNegation } from './negation.ts'
import type { Probe, ProbeSet } from './probes.ts'
import { samplePrompts } from './sample-prompts.ts'
import { compareServing, loadCandidate, type TrainedRows } from './serving.ts'

type EvaluatePorts = Omit<MeasurePorts, 'now'> & {
  log: EventLog
  reader: TurnReader
  probes: ProbeSet
  trained?: TrainedRows | undefined
  logLine?: ((line: string) => void) | undefined
}

/** `parent`: recorded figures of the head. Its length is measured again if it is not recorded. */
type CandidateVersion = {
  computed: UpdateComputed
  sealed: BatchSealed
  head: VersionState
  started: LineStarted | null
  /** The version whose adapter is a part of the base; null: the base is the weights alone. */
  base: VersionState | null
  positive: readonly string[]
  parent: Readonly<Record<string, number>>
}

export const evaluate = async (
  ports: EvaluatePorts,
  config: PublisherConfig,
  candidate: CandidateVersion,
): Promise<Figures> => {
  const { evaluator, log } = ports
  const { computed, head, base } = candidate
  const loaded: string[] = []
  const read = async ({ adapter, blobsAt }: { adapter: string; blobsAt: number }): Promise<Adapter> =>
    adapterFromWeights(await getBlob(log, adapter, blobsAt))
  const load = async (version: VersionState | null, as: 'candidate' | 'served'): Promise<void> => {
    const adapter = version?.adapter ?? null
    if (version === null || adapter === null || loaded.includes(adapter)) return
    await evaluator.load(await read({ ...version, adapter }), as)
    loaded.push(adapter)
  }
  const adapter = await read(computed)
  await loadCandidate(evaluator, adapter)
  loaded.push(adapter.sha256)
  try {
    await load(head, 'served')
    await load(base, 'candidate')
    return await measure(ports, config, candidate, adapter)
  } finally {
    for (const sha256 of loaded.reverse()) await evaluator.unload(sha256)
  }
}

/** With the candidate, the head and the base loaded. */
const measure = async (
  ports: EvaluatePorts,
  config: PublisherConfig,
  candidate: CandidateVersion,
  adapter: Adapter,
): Promise<Figures> => {
  const { computed, sealed, head, parent } = candidate
  const serving = await compareServing(ports, config, { adapter, computed, sealed, reader: ports.reader })
  const { batch, fixed } = await samplePrompts(ports, config, sealed)
  const sampling = samplingOf(ports, config)
  const base = candidate.base?.adapter ?? null
  const references = head.adapter === base ? [base] : [head.adapter, base]
  const sample = (prompts: readonly (readonly number[])[], seed: number): Promise<Evaluation> =>
    ports.evaluator.evaluate({
      prompts,
      adapter: adapter.sha256,
      references,
      sampling: { ...sampling, seed: sampling.seed + seed },
    })
  const own = await sample(batch, fixed.length)
  const onFixed = fixed.length > 0 ? await sample(fixed, 0) : null
  const all = onFixed ? joined([own, onFixed]) : own
  const lengthParent =
    parent.length ??
    (
      await ports.evaluator.evaluate({
        prompts: [...batch, ...fixed],
        adapter: head.adapter,
        references: [],
        sampling,
      })
    ).length
  const [klParent = 0, klBase = klParent] = all.kl
  const content = await contentOf(ports, candidate.started, adapter.sha256)
  const positive = await positiveLogprobs(ports, candidate, adapter.sha256)
  const figures = {
    kl_parent: klParent,
    kl_base: klBase,
    entropy: all.entropy,
    ...(parent.entropy === undefined ? {} : { entropy_parent: parent.entropy }),
    cut: cutShare(all),
    ...(parent.cut === undefined ? {} : { cut_parent: parent.cut }),
    ...(candidate.started?.settings['cut'] === undefined ? {} : { cut_base: candidate.started.settings['cut'] }),
    length: all.length,
    length_parent: lengthParent,
    repetition: all.repetition,
    ...(onFixed ? fixedFigures(onFixed, candidate, config) : {}),
    ...content.figures,
    ...positive,
    ...estimateFigures(all),
    ...serving,
    tokens: tokensOf(all) + content.tokens,
  }
  return { finite: Object.values(figures).every((value) => Number.isFinite(value)) ? 1 : 0, ...figures }
}

const estimateFigures = ({ estimate }: Evaluation): Partial<Figures> => {
  if (!estimate) return {}
  const [parent = 0, base = parent] = estimate.errors
  return { kl_top: estimate.top, kl_parent_error: parent, kl_base_error: base }
}

/** One evaluation of all answers; means are weighted by tokens, and by answers for `length`. */
const joined = (parts: readonly Evaluation[]): Evaluation => {
  const completions = parts.flatMap((part) => part.completions)
  const tokens = tokensOf({ completions })
  const mean = (of: (part: Evaluation) => number): number =>
    tokens === 0 ? 0 : parts.reduce((sum, part) => sum + of(part) * tokensOf(part), 0) / tokens
  const estimates = parts.flatMap(({ estimate }) => estimate ?? [])
  /** Of the mean of independent parts. */
  const error = (i: number): number =>
    tokens === 0 ? 0 : Math.hypot(...parts.map((part) => (part.estimate?.errors[i] ?? 0) * tokensOf(part))) / tokens
  return {
    completions,
    kl: (parts[0]?.kl ?? []).map((_, i) => mean((part) => part.kl[i] ?? 0)),
    entropy: mean((part) => part.entropy),
    repetition: mean((part) => part.repetition),
    length: completions.length === 0 ? 0 : tokens / completions.length,
    ...(estimates.length === 0
      ? {}
      : { estimate: { top: estimates[0]!.top, errors: (parts[0]?.kl ?? []).map((_, i) => error(i)) } }),
  }
}

const fixedFigures = (
  fixed: Evaluation,
  { started, parent, sealed }: CandidateVersion,
  { thresholds }: PublisherConfig,
): Partial<Figures> => {
  const [klParent = 0, klBase = klParent] = fixed.kl
  const { length_fixed: length, entropy_fixed: entropy } = started?.settings ?? {}
  // A head of an earlier build has no range: what it does already is taken as asked for.
  const known = [length, parent.length_fixed].filter((one) => one !== undefined)
  const before = {
    asked: parent.length_asked ?? 0,
    least: parent.length_least ?? Math.min(...known),
    most: parent.length_most ?? Math.max(...known),
  }
  const { asked, least, most } = askedWith(before, sealed.items, fixed.length, thresholds.lengthAsked)
  return {
    kl_parent_fixed: klParent,
    kl_base_fixed: klBase,
    entropy_fixed: fixed.entropy,
    length_fixed: fixed.length,
    repetition_fixed: fixed.repetition,
    length_asked: asked,
    ...(known.length === 0 ? {} : { length_least: least, length_most: most }),
    ...(length === undefined ? {} : { length_fixed_base: length }),
    ...(entropy === undefined ? {} : { entropy_fixed_base: entropy }),
  }
}

/** At the model's temperature, or at the only one at which the evaluator compares distributions. */
const samplingOf = (
  { model, evaluator }: Pick<MeasurePorts, 'model' | 'evaluator'>,
  { maxTokens }: PublisherConfig,
): Sampling => ({
  temperature: evaluator.temperature ?? model.defaults.temperature,
  topP: 1,
  topK: 0,
  seed: SEED,
  maxTokens,
  stop: [],
})

/**
 * The base's answers to the probes, and its figures on the fixed prompts: the settings of `LineStarted`. `adapter`: one that
 * is a part of the base, loaded.
 */
export const measureBase = async (
  ports: MeasurePorts & { probes: ProbeSet },
  config: PublisherConfig,
  onProgress: (progress: BaseProgress) => void = () => undefined,
  adapter: AdapterSha = null,
): Promise<Record<string, number>> => {
  const answers = await askBase(ports, ports.probes, config, adapter, onProgress)
  const prompts = fixedPrompts(ports.model, ports.probes, config)
  const recorded = {
    ...batterySettings(answers),
    ...extentSettings(config),
    ...(await measureNegation(ports, ports.probes, config, adapter)),
    ...(answers.kept.length > 0 ? { content: 1 } : {}),
  }
  if (prompts.length === 0) return recorded
  const sampling = samplingOf(ports, config)
  const own = await ports.evaluator.evaluate({ prompts, adapter, references: [], sampling })
  const { length, entropy } = own
  return { ...recorded, length, entropy, cut: cutShare(own), length_fixed: length, entropy_fixed: entropy }
}

/** The probes of a line that are still there; of a line of an earlier build, all own probes. */
export const probesOfLine = ({ probes, own }: ProbeSet, started: LineStarted | null): Probe[] => {
  const battery = batteryOf(started)
  return battery ? probes.filter(({ id }) => battery.kept.has(id)) : probes.slice(0, own)
}

/** The share of a line's probes with a correct greedy answer. No figures without probes. */
export const contentOf = async (
  ports: Pick<EvaluatePorts, 'evaluator' | 'model' | 'probes'>,
  started: LineStarted | null,
  adapter: AdapterSha,
): Promise<{ figures: Pick<Figures, 'content' | 'falls' | 'falls_limit'>; tokens: number }> => {
  const probes = probesOfLine(ports.probes, started)
  if (probes.length === 0) return { figures: {}, tokens: 0 }
  const { correct, tokens } = await ask(ports, probes, adapter, { temperature: 0, seed: SEED })
  const falls = correct.filter((one) => !one).length
  const battery = batteryOf(started)
  return {
    figures: {
      content: 1 - falls / probes.length,
      ...(battery ? { falls, falls_limit: fallsToReject(probes.length, battery.noise) } : {}),
    },
    tokens,
  }
}

/**
 * The most tokens that one verdict generates: each sampled answer and each answer to a probe of the line at its limit.
 */
export const mostTokens = (config: PublisherConfig, probes: readonly Probe[]): number =>
  probes.reduce((sum, { maxTokens }) => sum + maxTokens, config.samples * config.maxTokens)

const positiveLogprobs = async (
  ports: EvaluatePorts,
  { positive, head }: CandidateVersion,
  adapter: string,
): Promise<{ positive_logprob?: number; positive_logprob_parent?: number }> => {
  let own = 0
  let parent = 0
  let tokens = 0
  for (const id of positive) {
    const read = await ifReadable(async () => ({
      turn: await ports.reader.record(id),
      prompt: await ports.reader.promptIds(id),
    }))
    if (!read) continue
    const { turn, prompt } = read
    if (!isUsable(turn)) continue
    const request = {
      prompt,
      completion: turn.ids,
      temperature: ports.evaluator.temperature ?? (turn.sampling.temperature || 1),
    }
    own += sum(await ports.evaluator.score({ ...request, adapter }))
    parent += sum(await ports.evaluator.score({ ...request, adapter: head.adapter }))
    tokens += turn.ids.length
  }
  return tokens > 0 ? { positive_logprob: own / tokens, positive_logprob_parent: parent / tokens } : {}
}

const sum = (values: Float32Array): number => values.reduce((total, value) => total + value, 0)
