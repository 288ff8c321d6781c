/** Puts the probes to the base at line start, and measures it on the fixed prompts. */
import type { AdapterSha, Evaluation, Evaluator, Model } from '@instar/engine/port'
import type { PublisherConfig } from '../config.ts'
import type { BaseAnswers } from '../core/battery.ts'
import type { Probe, ProbeSet } from './probes.ts'

export type MeasurePorts = { evaluator: Evaluator; model: Model; now: () => number }

/** Of the sampled answers on fixed prompts. Sample i of them has this seed + i. */
export const SEED = 7
/** Probes that are put to the base at a time. */
const CHUNK = 64
/** Answers that a judge is given at a time. */
const CHECKS_AT_ONCE = 4

export const cutShare = ({ completions }: Pick<Evaluation, 'completions'>): number =>
  completions.length === 0 ? 0 : completions.filter(({ reason }) => reason === 'length').length / completions.length

export const tokensOf = ({ completions }: Pick<Evaluation, 'completions'>): number =>
  completions.reduce((sum, { ids }) => sum + ids.length, 0)

/** Whether each answer is correct, in the order of the probes, and how many tokens were generated. */
export const ask = async (
  { evaluator, model }: Pick<MeasurePorts, 'evaluator' | 'model'>,
  probes: readonly Probe[],
  adapter: AdapterSha,
  { temperature, seed }: { temperature: number; seed: number },
): Promise<{ correct: boolean[]; tokens: number }> => {
  if (probes.length === 0) return { correct: [], tokens: 0 }
  // One call for all limits: a decode step costs nearly the same for one row as for many.
  const limits = probes.map(({ maxTokens }) => maxTokens)
  const evaluation = await evaluator.evaluate({
    prompts: probes.map(({ messages }) => model.promptIds(messages, {})),
    adapter,
    references: [],
    sampling: { temperature, topP: 1, topK: 0, seed, maxTokens: Math.max(...limits), stop: [] },
    limits,
  })
  const correct = probes.map(() => false)
  const checks = probes.map((probe, at) => async () => {
    correct[at] = await probe.check(evaluation.completions[at]?.text ?? '')
  })
  while (checks.length > 0) await Promise.all(checks.splice(0, CHECKS_AT_ONCE).map((check) => check()))
  return { correct, tokens: tokensOf(evaluation) }
}

export type BaseProgress = { asked: number; of: number; kept: number }

/**
 * Keeps the probes with a correct greedy answer and `battery.samples` correct sampled ones, `battery.kept` in all, and
 * puts these `battery.again` times more. A probe that does not fit the context is not asked. `adapter`: of the base, loaded;
 * null: the weights alone.
 */
export const askBase = async (
  ports: MeasurePorts,
  { probes }: ProbeSet,
  { battery }: PublisherConfig,
  adapter: AdapterSha,
  onProgress: (progress: BaseProgress) => void,
): Promise<BaseAnswers> => {
  const fitting = probes.filter(
    ({ messages, maxTokens }) => ports.model.promptIds(messages, {}).length + maxTokens <= ports.model.contextLength,
  )
  const found: BaseAnswers = { asked: 0, right: 0, kept: [], noise: { answers: 0, failed: 0 } }
  const end = ports.now() + battery.seconds * 1000
  onProgress({ asked: 0, of: fitting.length, kept: 0 })
  while (found.asked < fitting.length && found.kept.length < battery.kept && ports.now() < end) {
    const chunk = fitting.slice(found.asked, found.asked + CHUNK)
    const greedy = await ask(ports, chunk, adapter, { temperature: 0, seed: SEED })
    let stable = chunk.filter((_, i) => greedy.correct[i])
    found.asked += chunk.length
    found.right += stable.length
    for (let sample = 1; sample <= battery.samples && stable.length > 0; sample += 1) {
      const seed = SEED + sample * 1_000_000 + found.asked
      const { correct } = await ask(ports, stable, adapter, { temperature: battery.temperature, seed })
      stable = stable.filter((_, i) => correct[i])
    }
    const kept = stable.slice(0, battery.kept - found.kept.length)
    found.kept.push(...kept.map(({ id }) => id))
    for (let time = 1; time <= battery.again && kept.length > 0; time += 1) {
      const seed = SEED + (battery.samples + time) * 1_000_000 + found.asked
      const { correct } = await ask(ports, kept, adapter, { temperature: battery.againTemperature, seed })
      found.noise.answers += kept.length
      found.noise.failed += correct.filter((one) => !one).length
    }
    onProgress({ asked: found.asked, of: fitting.length, kept: found.kept.length })
  }
  return found
}

/**
 * The fixed prompts that fit the context: the same ones, `config.fixedSamples` at most, for base and every candidate.
 */
export const fixedPrompts = (model: Model, { prompts }: ProbeSet, config: PublisherConfig): number[][] => {
  const found: number[][] = []
  for (const messages of prompts) {
    if (found.length >= config.fixedSamples) break
    const ids = model.promptIds(messages, {})
    if (ids.length + config.maxTokens <= model.contextLength) found.push(ids)
  }
  return found
}

/** A sentence for the console where no fixed prompt is left of those that there are; '' otherwise. */
export const promptShortage = (model: Model, probes: ProbeSet, config: PublisherConfig): string =>
  probes.prompts.length === 0 || config.fixedSamples === 0 || fixedPrompts(model, probes, config).length > 0
    ? ''
    : `the gate has no fixed prompt: none of ${probes.prompts.length} leaves room for gate.maxTokens ${config.maxTokens} in a ` +
      `context of ${model.contextLength} tokens. It compares neither length nor entropy with the base`
