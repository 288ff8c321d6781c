/**
 * Estimates of the gate's KL from the log-probs that a server reports, against the sum over the whole vocabulary on the
 * same answers, of candidates of the shipped model that are one good update, four, and one that is far too large.
 */
import { fileURLToPath } from 'node:url'
import type { Adapter, LearningEngine, Model, Parent, TrainItem } from '@instar/engine/port'
import { klAt, meanOverTokens } from '@instar/engine/kl-estimate'
import { openModel, readAdapter, startLearning } from '@instar/policy'
import { loadWeights } from '@instar/policy/checkpoints/open'
import { completionLogprobs } from '@instar/policy/forward'
import { createRuntime, type Runtime } from '@instar/policy/runtime/runtime'
import { probesOf } from '@instar/publisher'
import { trainerConfig } from '@instar/trainer'
import { machine, rounded } from './machine.ts'

const MODEL = fileURLToPath(new URL('../models/tiny', import.meta.url))
/** As a verdict samples. */
const [PROMPTS, MAX_TOKENS] = [48, 64]

/** Nats per token. `error`: root mean square over the seeds of estimate − sum on the same answers. */
type Row = {
  candidate: string
  reference: string
  estimate: string
  kl: number
  bias: number
  error: number
  /** Mean of the standard errors that the estimate reports: it includes that answers differ. */
  reported: number
}
type Report = { name: string; machine: string; rows: Row[] }

type Sampled = { prompt: readonly number[]; completion: readonly number[] }

/** Answers of the base, of which short ones are praised. */
const batch = async (learner: LearningEngine, model: Model, prompts: readonly number[][], seed: number) => {
  const sampling = { ...model.defaults, topP: 1, topK: 0, seed, maxTokens: MAX_TOKENS, stop: [] }
  const { completions } = await learner.evaluate({ prompts, adapter: null, references: [], sampling })
  const median = completions.map(({ ids }) => ids.length).toSorted((a, b) => a - b)[completions.length >> 1]!
  return Promise.all(
    completions.map(async ({ ids }, at): Promise<TrainItem> => {
      const request = { prompt: prompts[at]!, completion: ids, adapter: null, temperature: sampling.temperature }
      return {
        prompt: request.prompt,
        completion: ids,
        behaviourLogprobs: [...(await learner.score(request))],
        temperature: sampling.temperature,
        advantage: ids.length <= median ? 1 : -1,
        hintPrompt: null,
      }
    }),
  )
}

/** `updates` in a row, the learning rate times `rate`; without bounds of a step. */
const trained = async (
  learner: LearningEngine,
  items: (seed: number) => Promise<TrainItem[]>,
  updates: number,
  rate: number,
): Promise<Adapter[]> => {
  const { step } = trainerConfig.parse({})
  const settings = { ...step, learningRate: rate * step.learningRate, klParentMax: Infinity, klBaseMax: Infinity }
  const found: Adapter[] = []
  let parent: Parent = { adapter: null, state: null }
  for (let seed = 1; seed <= updates; seed += 1) {
    const { adapter, state } = await learner.step(await items(seed), { ...settings, seed }, parent)
    found.push(adapter)
    parent = { adapter, state }
  }
  return found
}

type Estimate = { name: string; at(p: Float32Array, q: Float32Array, id: number): number }

/** The `k` likeliest tokens, with log-probs `row`. */
const likeliest = (row: Float32Array, k: number): { id: number; logprob: number }[] =>
  [...row.keys()]
    .toSorted((a, b) => row[b]! - row[a]!)
    .slice(0, k)
    .map((id) => ({ id, logprob: row[id]! }))

/** Only the likeliest tokens and the rest as one bucket: a lower bound. */
const bucketed = (p: Float32Array, q: Float32Array, k: number): number => {
  let [kl, restP, restQ] = [0, 1, 1]
  for (const { id, logprob } of likeliest(p, k)) {
    kl += Math.exp(logprob) * (logprob - q[id]!)
    restP -= Math.exp(logprob)
    restQ -= Math.exp(q[id]!)
  }
  return kl + Math.max(restP, 1e-6) * Math.log(Math.max(restP, 1e-6) / Math.max(restQ, 1e-6))
}

const chained = (k: number): Estimate => ({
  name: k === 0 ? 'k3 of the sampled token' : `${k} likeliest, k3 of the rest`,
  at: (p, q, id) => {
    const top = likeliest(p, k)
    return klAt(
      { top, sampled: { id, logprob: p[id]! } },
      new Map([...top.map((one) => one.id), id].map((one) => [one, q[one]!])),
    )
  },
})
const ESTIMATES: readonly Estimate[] = [
  { name: 'log-ratio of the sampled token (k1)', at: (p, q, id) => p[id]! - q[id]! },
  chained(0),
  { name: '16 likeliest, the rest a bucket', at: (p, q) => bucketed(p, q, 16) },
  chained(16),
]

/** Values of each estimate by answer and token, and the sum over the vocabulary last. */
const valuesOf = async (
  runtime: Runtime,
  sampled: readonly Sampled[],
  temperature: number,
  slots: { own: number | null; other: number | null },
): Promise<number[][][]> => {
  const V = runtime.config.vocabulary
  const values: number[][][] = [...ESTIMATES, null].map(() => [])
  for (const one of sampled) {
    const rows = async (slot: number | null) => (await completionLogprobs(runtime, [{ ...one, temperature, slot }]))[0]!
    const [own, other] = [await rows(slots.own), await rows(slots.other)]
    const answer = one.completion.map((id, at) => {
      const [p, q] = [own.subarray(at * V, (at + 1) * V), other.subarray(at * V, (at + 1) * V)]
      const sum = p.reduce((kl, logprob, i) => kl + Math.exp(logprob) * (logprob - q[i]!), 0)
      return [...ESTIMATES.map((estimate) => estimate.at(p, q, id)), sum]
    })
    for (const [which, list] of values.entries()) list.push(answer.map((found) => found[which]!))
  }
  return values
}

export const bench = async ({ quick }: { quick: boolean }): Promise<Report> => {
  const seeds = quick ? 2 : 8
  const [learner, model] = await Promise.all([startLearning({ model: MODEL }), openModel(MODEL)])
  const rows: Row[] = []
  try {
    const prompts = probesOf(MODEL)
      .prompts.slice(0, PROMPTS)
      .map((messages) => model.promptIds(messages, {}))
    const items = (seed: number): Promise<TrainItem[]> =>
      batch(learner, model, prompts.slice((seed * 16) % 32, ((seed * 16) % 32) + 16), 1000 * seed)
    const good = await trained(learner, items, 4, 1)
    const [large] = await trained(learner, items, 1, 10)
    const runtime = await createRuntime({ ...loadWeights(MODEL), base: '' })
    const cases = [
      { candidate: 'first update', adapter: good[0]!, references: [['base', null]] },
      {
        candidate: 'fourth update',
        adapter: good[3]!,
        references: [
          ['parent', good[2]!],
          ['base', null],
        ],
      },
      { candidate: 'ten times the rate', adapter: large!, references: [['base', null]] },
    ] as const
    for (const { candidate, adapter, references } of cases) {
      runtime.setAdapterSlot(1, readAdapter(adapter, runtime.config))
      await learner.load(adapter)
      for (const [reference, other] of references) {
        if (other) runtime.setAdapterSlot(2, readAdapter(other, runtime.config))
        const sampling = { ...model.defaults, topP: 1, topK: 0, maxTokens: MAX_TOKENS, stop: [] }
        const found: { mean: number; error: number }[][] = []
        for (let seed = 1; seed <= seeds; seed += 1) {
          const request = {
            prompts,
            adapter: adapter.sha256,
            references: [],
            sampling: { ...sampling, seed: 100 * seed },
          }
          const { completions } = await learner.evaluate(request)
          const sampled = completions.map(({ ids }, at) => ({ prompt: prompts[at]!, completion: ids }))
          const slots = { own: 1, other: other ? 2 : null }
          const temperature = sampling.temperature
          found.push((await valuesOf(runtime, sampled, temperature, slots)).map((values) => meanOverTokens(values)))
        }
        const mean = (of: (one: { mean: number; error: number }[]) => number): number =>
          found.reduce((sum, one) => sum + of(one), 0) / seeds
        const sums = (one: { mean: number }[]): number => one.at(-1)!.mean

        for (const [which, { name }] of ESTIMATES.entries())
          rows.push({
            candidate,
            reference,
            estimate: name,
            kl: rounded(mean(sums)),
            bias: rounded(mean((one) => one[which]!.mean - sums(one))),
            error: rounded(Math.sqrt(mean((one) => (one[which]!.mean - sums(one)) ** 2))),
            reported: rounded(mean((one) => one[which]!.error)),
          })
      }
      await learner.unload(adapter.sha256)
    }
    await runtime.close()
  } finally {
    await learner.close()
  }
  return { name: 'gate-estimates', machine: machine(), rows }
}
