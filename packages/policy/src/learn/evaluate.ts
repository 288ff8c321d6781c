/** Samples of one adapter on fixed prompts, and how far its distribution is from others' on these very samples. */
import { entropyOf, klOf } from '../distribution.ts'
import { completionLogprobs, microBatches } from '../forward.ts'
import type { EvaluateRequest, Evaluation, FinishReason } from '../port.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { Generation } from '../serve/job.ts'
import type { TextTokenizer } from '../tokenizer/tokenizer.ts'

/** Rows decoded together, and positions read in one pass: a thread is not held much longer than 50 ms by the small model. */
const ROWS = 32
const POSITIONS = 512

export type Completion = { ids: number[]; text: string; reason: FinishReason }
export type Sampler = { runtime: Runtime; tokenizer: Pick<TextTokenizer, 'bytesOf'>; endOfTurn: ReadonlySet<number> }

/** Prompt i draws with seed + i; what it draws does not depend on the rows beside it. Ids include the end-of-turn token. */
export async function generateAll(sampler: Sampler, request: EvaluateRequest, slot: number | null): Promise<Completion[]> {
  const { runtime } = sampler
  const context = runtime.config.contextLength
  const done: Completion[] = []
  type Row = { index: number; prompt: readonly number[]; generation: Generation; ids: number[]; text: string }
  const rows = request.prompts.map((prompt, index): Row => ({
    index, prompt, ids: [], text: '',
    generation: new Generation({ prompt, sampling: { ...request.sampling, seed: request.sampling.seed + index }, adapter: null, topLogprobs: 0 }, sampler.tokenizer, sampler.endOfTurn),
  }))
  /** Draws for every row of `logits`; returns those that go on. */
  const draw = (group: readonly Row[], logits: Float32Array): number[] => {
    const V = runtime.config.vocabulary
    return group.flatMap((row, at) => {
      const { token, end } = row.generation.next(logits.subarray(at * V, (at + 1) * V), context - row.prompt.length - row.ids.length)
      row.ids.push(token.id)
      row.text += token.text
      if (!end) return [at]
      done[row.index] = { ids: row.ids, text: row.text + end.text, reason: end.reason }
      return []
    })
  }
  const waiting = microBatches(rows, (row) => row.prompt.length, POSITIONS)
  const cache = runtime.createCache()
  let running: Row[] = []
  while (waiting.length > 0 || running.length > 0) {
    while (running.length < ROWS) {
      const group = waiting.shift()
      if (!group) break
      const fresh = runtime.createCache(group.length)
      const T = Math.max(...group.map((row) => row.prompt.length))
      const ids = new Int32Array(group.length * T)
      group.forEach((row, at) => { ids.set(row.prompt, at * T) })
      const { logits } = await runtime.decodeStep({ ids, T, cache: fresh, rowSlots: group.map(() => slot), counts: group.map((row) => row.prompt.length) })
      const stay = draw(group, logits)
      fresh.keep(stay)
      cache.append(fresh)
      running.push(...stay.map((at) => group[at] as Row))
    }
    if (running.length === 0) continue
    const { logits } = await runtime.decodeStep({ ids: Int32Array.from(running, (row) => row.ids[row.ids.length - 1] as number), T: 1, cache, rowSlots: running.map(() => slot) })
    const stay = draw(running, logits)
    if (stay.length < running.length) cache.keep(stay)
    running = stay.map((at) => running[at] as Row)
  }
  return done
}

/** `slots`: of the adapter, then of each reference. */
export async function evaluate(sampler: Sampler, request: EvaluateRequest, slots: { adapter: number | null; references: readonly (number | null)[] }): Promise<Evaluation> {
  const { runtime } = sampler
  const V = runtime.config.vocabulary
  const completions = await generateAll(sampler, request, slots.adapter)
  const kl = slots.references.map(() => 0)
  let entropy = 0
  let tokens = 0
  const samples = completions.map(({ ids }, at) => ({ prompt: request.prompts[at] ?? [], completion: ids, temperature: request.sampling.temperature }))
  for (const group of microBatches(samples, (row) => row.prompt.length + row.completion.length, POSITIONS)) {
    const own = await completionLogprobs(runtime, group.map((row) => ({ ...row, slot: slots.adapter })))
    group.forEach((row, at) => {
      tokens += row.completion.length
      for (let token = 0; token < row.completion.length; token++) entropy += entropyOf(own[at] as Float32Array, token, V)
    })
    for (const [which, slot] of slots.references.entries()) {
      const other = await completionLogprobs(runtime, group.map((row) => ({ ...row, slot })))
      group.forEach((row, at) => {
        for (let token = 0; token < row.completion.length; token++) kl[which] = (kl[which] ?? 0) + klOf(own[at] as Float32Array, other[at] as Float32Array, token, V)
      })
    }
  }
  const per = (sum: number): number => (tokens === 0 ? 0 : sum / tokens)
  return { completions, kl: kl.map(per), entropy: per(entropy), length: completions.length === 0 ? 0 : tokens / completions.length, repetition: repetition(completions.map(({ ids }) => ids)) }
}

/** Share of 4-grams that stood earlier in the same completion. */
export function repetition(completions: readonly (readonly number[])[]): number {
  let all = 0
  let repeated = 0
  for (const ids of completions) {
    const seen = new Set<string>()
    for (let at = 0; at + 4 <= ids.length; at++) {
      const gram = ids.slice(at, at + 4).join()
      all++
      if (seen.has(gram)) repeated++
      seen.add(gram)
    }
  }
  return all === 0 ? 0 : repeated / all
}
