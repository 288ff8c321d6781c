/** Samples completions of one adapter for given prompts, and computes its KL divergence to other adapters on them. */
import { entropyOf, inverseTemperature, klsOf } from '../distribution.ts'
import { completionLogprobs, microBatches } from '../forward.ts'
import type { EvaluateRequest, Evaluation, FinishReason } from '@instar/engine/port'
import { repetition } from '@instar/engine/repetition'
import type { Runtime } from '../runtime/runtime.ts'
import type { KvCache } from '../runtime/cache.ts'
import { Generation } from '../serve/job.ts'
import { prefilled, prefixGroups, rowsAfter, type PrefixGroup } from '../shared-prefix.ts'
import type { TextTokenizer } from '../tokenizer/tokenizer.ts'

/** Most rows that are decoded together. */
const ROWS = 32
/** Most positions in one forward pass of prefill or scoring; about 50 ms with models/tiny. */
const POSITIONS = 512
/** Most positions of copies of a common beginning in one pass: with SmolLM2-135M 190 MB of keys and values. */
const COPIED = 4_096

/** `entropy`: the sum over the tokens of the entropy of the distribution they were sampled from, in nats. */
export type Completion = { ids: number[]; text: string; reason: FinishReason; entropy: number }
/** `prefix`: the keys and values of `ids` under the adapter that samples; null: the group has nothing in common. */
type Shared = PrefixGroup & { prefix: KvCache | null }
type Sampler = { runtime: Runtime; tokenizer: Pick<TextTokenizer, 'bytesOf'>; endOfTurn: ReadonlySet<number> }

/**
 * One completion per prompt. Prompt i is sampled with seed + i, independently of the other rows. `ids` includes the
 * end-of-turn token. `slot`: adapter slot; null is the base model.
 */
async function generateAll(
  sampler: Sampler,
  request: EvaluateRequest,
  slot: number | null,
  groups: readonly Shared[],
): Promise<Completion[]> {
  const { runtime } = sampler
  const context = runtime.config.contextLength
  const done: Completion[] = []
  type GenerationRow = {
    index: number
    prompt: readonly number[]
    generation: Generation
    ids: number[]
    text: string
    entropy: number
  }
  const rows = request.prompts.map((prompt, index): GenerationRow => ({
    index,
    prompt,
    ids: [],
    text: '',
    entropy: 0,
    generation: new Generation(
      {
        prompt,
        sampling: {
          ...request.sampling,
          seed: request.sampling.seed + index,
          maxTokens: request.limits?.[index] ?? request.sampling.maxTokens,
        },
        adapter: null,
        topLogprobs: 0,
      },
      sampler.tokenizer,
      sampler.endOfTurn,
    ),
  }))
  const scale = inverseTemperature(request.sampling.temperature)
  /** Samples one token per row from `logits` [rows, V]; returns the indices of the rows that are not finished. */
  const sampleRows = (group: readonly GenerationRow[], logits: Float32Array): number[] => {
    const V = runtime.config.vocabulary
    return group.flatMap((row, at) => {
      const own = logits.subarray(at * V, (at + 1) * V)
      const { token, end } = row.generation.next(own, context - row.prompt.length - row.ids.length)
      row.entropy += entropyOf(own, scale)
      row.ids.push(token.id)
      row.text += token.text
      if (!end) return [at]
      done[row.index] = { ids: row.ids, text: row.text + end.text, reason: end.reason, entropy: row.entropy }
      return []
    })
  }
  const waiting: { group: GenerationRow[]; shared: number; prefix: KvCache | null }[] = []
  for (const { ids, members, prefix } of groups) {
    const own = members.map((index) => rows[index] as GenerationRow)
    for (const group of batchesAfter(ids.length, own, (row) => row.prompt.length - ids.length))
      waiting.push({ group, shared: ids.length, prefix })
  }
  const cache = runtime.createCache()
  let running: GenerationRow[] = []
  while (waiting.length > 0 || running.length > 0) {
    while (running.length < ROWS) {
      const next = waiting.shift()
      if (!next) break
      const { group, shared, prefix } = next
      const groupCache = rowsAfter(runtime, prefix, group.length)
      const T = Math.max(...group.map((row) => row.prompt.length)) - shared
      const ids = new Int32Array(group.length * T)
      group.forEach((row, at) => {
        ids.set(row.prompt.slice(shared), at * T)
      })
      const { logits } = await runtime.decodeStep({
        ids,
        T,
        cache: groupCache,
        rowSlots: group.map(() => slot),
        counts: group.map((row) => row.prompt.length - shared),
      })
      const unfinished = sampleRows(group, logits)
      groupCache.keep(unfinished)
      cache.append(groupCache)
      running.push(...unfinished.map((at) => group[at] as GenerationRow))
    }
    if (running.length === 0) continue
    const { logits } = await runtime.decodeStep({
      ids: Int32Array.from(running, (row) => row.ids[row.ids.length - 1] as number),
      T: 1,
      cache,
      rowSlots: running.map(() => slot),
    })
    const remaining = fewestMoves(sampleRows(running, logits))
    if (remaining.length < running.length) cache.keep(remaining)
    running = remaining.map((at) => running[at] as GenerationRow)
  }
  return done
}

/** Micro-batches of rows that follow a common beginning of `shared` positions, of which each row has a copy. */
const batchesAfter = <T>(shared: number, rows: readonly T[], lengthOf: (row: T) => number): T[][] => {
  const most = Math.max(1, Math.floor(COPIED / Math.max(1, shared)))
  return microBatches(rows, lengthOf, POSITIONS).flatMap((group) =>
    Array.from({ length: Math.ceil(group.length / most) }, (_, at) => group.slice(at * most, (at + 1) * most)),
  )
}

/** Reorders ascending row indices so that the last ones fill the gaps, so that fewer rows of the cache move. */
function fewestMoves(rows: readonly number[]): number[] {
  const out: number[] = []
  let last = rows.length
  for (let place = 0, at = 0; out.length < rows.length; place++) {
    if (rows[at] === place) out.push(rows[at++] as number)
    else out.push(rows[--last] as number)
  }
  return out
}

/**
 * KL and entropy are means per token, in nats; `length` is the mean number of tokens. `slots`: adapter slots of the
 * adapter and of each reference; null is the base model.
 */
export async function evaluate(
  sampler: Sampler,
  request: EvaluateRequest,
  slots: { adapter: number | null; references: readonly (number | null)[] },
): Promise<Evaluation> {
  const { runtime } = sampler
  const V = runtime.config.vocabulary
  const groups: Shared[] = []
  for (const group of prefixGroups(request.prompts))
    groups.push({ ...group, prefix: await prefilled(runtime, group.ids, slots.adapter) })
  const completions = await generateAll(sampler, request, slots.adapter, groups)
  const kl = slots.references.map(() => 0)
  const tokens = completions.reduce((sum, { ids }) => sum + ids.length, 0)
  const all = [slots.adapter, ...slots.references]
  for (const { ids, members, prefix } of kl.length === 0 ? [] : groups) {
    const prefixes = [prefix, ...(await Promise.all(slots.references.map((slot) => prefilled(runtime, ids, slot))))]
    const samples = members.map((at) => ({
      prompt: (request.prompts[at] ?? []).slice(ids.length),
      completion: completions[at]?.ids ?? [],
      temperature: request.sampling.temperature,
    }))
    for (const group of batchesAfter(ids.length, samples, (row) => row.prompt.length + row.completion.length)) {
      const [own = [], ...others] = await Promise.all(
        all.map((slot, which) =>
          completionLogprobs(
            runtime,
            group.map((row) => ({ ...row, slot })),
            prefixes[which],
          ),
        ),
      )
      group.forEach((row, at) => {
        const references = others.map((rows) => rows[at] as Float32Array)
        for (let token = 0; token < row.completion.length; token++)
          klsOf(own[at] as Float32Array, references, token, V).forEach((value, which) => {
            kl[which] = (kl[which] ?? 0) + value
          })
      })
    }
  }
  const per = (sum: number): number => (tokens === 0 ? 0 : sum / tokens)
  return {
    completions: completions.map(({ ids, text, reason }) => ({ ids, text, reason })),
    kl: kl.map(per),
    entropy: per(completions.reduce((sum, { entropy }) => sum + entropy, 0)),
    length: completions.length === 0 ? 0 : tokens / completions.length,
    repetition: repetition(completions.map(({ ids }) => ids)),
  }
}
