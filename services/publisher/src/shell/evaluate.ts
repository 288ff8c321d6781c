/** Measures a candidate against the serving version on the learning engine. Figures: core/gate.ts. */
import { type BatchSealed, type UpdateComputed, type VersionState } from '@instar/events'
import { getBlob, type EventLog, type TurnReader } from '@instar/log'
import type { AdapterSha, Evaluation, LearningEngine, Model, Sampling } from '@instar/engine/port'
import { adapterFromWeights } from '@instar/policy'
import type { PublisherConfig } from '../config.ts'
import type { Figures } from '../core/gate.ts'

/** A question of the model's content probe and the check of an answer. */
export type Probe = { question: string; check: (answer: string) => boolean }

type EvaluatePorts = {
  log: EventLog
  reader: TurnReader
  learner: LearningEngine
  model: Model
  probes: readonly Probe[]
}

/** `parent`: recorded figures of the head. Its length is measured again if it is not recorded. */
type CandidateVersion = {
  computed: UpdateComputed
  sealed: BatchSealed
  head: VersionState
  positive: readonly string[]
  parent: Readonly<Record<string, number>>
}

const SEED = 7

export const evaluate = async (
  ports: EvaluatePorts,
  config: PublisherConfig,
  candidate: CandidateVersion,
): Promise<Figures> => {
  const { computed, sealed, head, parent } = candidate
  const adapter = adapterFromWeights(await getBlob(ports.log, computed.adapter, computed.blobsAt))
  await ports.learner.load(adapter)
  if (head.adapter !== null)
    await ports.learner.load(adapterFromWeights(await getBlob(ports.log, head.adapter, head.blobsAt)))
  try {
    const prompts = await samplePrompts(ports, config, sealed)
    const sampling = samplingOf(ports.model, config)
    const own = await ports.learner.evaluate({
      prompts,
      adapter: adapter.sha256,
      references: [head.adapter, null],
      sampling,
    })
    const lengthParent =
      parent.length ??
      (await ports.learner.evaluate({ prompts, adapter: head.adapter, references: [], sampling })).length
    const [klParent = 0, klBase = 0] = own.kl
    const content = await contentOf(ports, config, adapter.sha256)
    const positive = await positiveLogprobs(ports, candidate, adapter.sha256)
    const figures = {
      kl_parent: klParent,
      kl_base: klBase,
      entropy: own.entropy,
      ...(parent.entropy === undefined ? {} : { entropy_parent: parent.entropy }),
      cut: cutShare(own),
      ...(parent.cut === undefined ? {} : { cut_parent: parent.cut }),
      length: own.length,
      length_parent: lengthParent,
      repetition: own.repetition,
      ...content,
      ...positive,
    }
    return { finite: Object.values(figures).every((value) => Number.isFinite(value)) ? 1 : 0, ...figures }
  } finally {
    await ports.learner.unload(adapter.sha256)
    if (head.adapter !== null) await ports.learner.unload(head.adapter)
  }
}

const cutShare = ({ completions }: Pick<Evaluation, 'completions'>): number =>
  completions.length === 0 ? 0 : completions.filter(({ reason }) => reason === 'length').length / completions.length

const samplingOf = (model: Model, config: PublisherConfig): Sampling => ({
  temperature: model.defaults.temperature,
  topP: 1,
  topK: 0,
  seed: SEED,
  maxTokens: config.maxTokens,
  stop: [],
})

/** The base's figures on the probes, with which the first candidate is compared. Empty without probes. */
export const measureBase = async (
  ports: Pick<EvaluatePorts, 'learner' | 'model' | 'probes'>,
  config: PublisherConfig,
): Promise<{ content?: number; length?: number; entropy?: number; cut?: number }> => {
  if (ports.probes.length === 0) return {}
  const prompts = ports.probes
    .slice(0, config.samples)
    .map((probe) => ports.model.promptIds([{ role: 'user', content: probe.question }], {}))
  const own = await ports.learner.evaluate({
    prompts,
    adapter: null,
    references: [],
    sampling: samplingOf(ports.model, config),
  })
  return { ...(await contentOf(ports, config, null)), length: own.length, entropy: own.entropy, cut: cutShare(own) }
}

/** The share of probes with a correct answer, sampled at temperature 0. Empty without probes. */
export const contentOf = async (
  ports: Pick<EvaluatePorts, 'learner' | 'model' | 'probes'>,
  config: PublisherConfig,
  adapter: AdapterSha,
): Promise<{ content?: number }> => {
  if (ports.probes.length === 0) return {}
  const prompts = ports.probes.map((probe) => ports.model.promptIds([{ role: 'user', content: probe.question }], {}))
  const { completions } = await ports.learner.evaluate({
    prompts,
    adapter,
    references: [],
    sampling: { temperature: 0, topP: 1, topK: 0, seed: SEED, maxTokens: config.maxTokens, stop: [] },
  })
  const correct = ports.probes.filter((probe, i) => probe.check(completions[i]?.text ?? '')).length
  return { content: correct / ports.probes.length }
}

/** Token ids of at most `samples` prompts: those of the batch, then the questions of the probes. */
const samplePrompts = async (
  ports: EvaluatePorts,
  config: PublisherConfig,
  sealed: BatchSealed,
): Promise<number[][]> => {
  const recorded = await Promise.all(
    sealed.items.slice(0, config.samples).map((item) => ports.reader.promptIds(item.turn)),
  )
  const probes = ports.probes
    .slice(0, Math.max(0, config.samples - recorded.length))
    .map((probe) => ports.model.promptIds([{ role: 'user', content: probe.question }], {}))
  return [...recorded, ...probes]
}

const positiveLogprobs = async (
  ports: EvaluatePorts,
  { positive, head }: CandidateVersion,
  adapter: string,
): Promise<{ positive_logprob?: number; positive_logprob_parent?: number }> => {
  let own = 0
  let parent = 0
  let tokens = 0
  for (const id of positive) {
    const turn = await ports.reader.record(id)
    const request = {
      prompt: await ports.reader.promptIds(id),
      completion: turn.ids,
      temperature: turn.sampling.temperature || 1,
    }
    own += sum(await ports.learner.score({ ...request, adapter }))
    parent += sum(await ports.learner.score({ ...request, adapter: head.adapter }))
    tokens += turn.ids.length
  }
  return tokens > 0 ? { positive_logprob: own / tokens, positive_logprob_parent: parent / tokens } : {}
}

const sum = (values: Float32Array): number => values.reduce((total, value) => total + value, 0)
