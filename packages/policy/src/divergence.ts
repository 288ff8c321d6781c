/** Mean KL divergence of a candidate to the parent adapter and to the base model, on a sample of a batch's tokens. */
import { klOf } from './distribution.ts'
import { completionLogprobs, microBatches } from './forward.ts'
import type { ScoredSequence } from './forward.ts'
import type { Runtime } from './runtime/runtime.ts'
import type { Divergences } from './trust-region.ts'

/** Bytes of the two references' log-probabilities [tokens, V] at most. */
const REFERENCE_BYTES = 128 * 1024 * 1024
/** Response tokens measured at most. */
const TOKENS = 512

type Sequence = Omit<ScoredSequence, 'slot'>

/**
 * The sample: the first response tokens of every turn, equally many, so that no long answer is the measure. Answers
 * sampled from the parent (or an ancestor) give an estimate under its distribution of contexts.
 */
function sampled(items: readonly Sequence[], vocabulary: number): Sequence[] {
  const tokens = Math.min(TOKENS, Math.floor(REFERENCE_BYTES / (8 * vocabulary)))
  const each = Math.max(1, Math.floor(tokens / items.length))
  return items.map(({ prompt, completion, temperature }) => ({
    prompt,
    completion: completion.slice(0, each),
    temperature,
  }))
}

/** `microBatchTokens`: of StepSettings. Computes the references once; the result measures the adapter in a slot: one forward pass over the sample. */
export async function divergenceMeter(
  runtime: Runtime,
  items: readonly Sequence[],
  parentSlot: number | null,
  microBatchTokens: number,
): Promise<(slot: number) => Promise<Divergences>> {
  const V = runtime.config.vocabulary
  const groups = microBatches(
    sampled(items, V),
    ({ prompt, completion }) => prompt.length + completion.length,
    microBatchTokens,
  )
  const rows = (group: readonly Sequence[], slot: number | null): Promise<Float32Array[]> =>
    completionLogprobs(
      runtime,
      group.map((sequence) => ({ ...sequence, slot })),
    )
  const references: { parent: Float32Array[]; base: Float32Array[] }[] = []
  for (const group of groups) references.push({ parent: await rows(group, parentSlot), base: await rows(group, null) })
  return async (slot) => {
    const sums = { parent: 0, base: 0 }
    let tokens = 0
    for (const [index, group] of groups.entries()) {
      const own = await rows(group, slot)
      for (const [at, { completion }] of group.entries()) {
        tokens += completion.length
        for (const which of ['parent', 'base'] as const)
          for (let row = 0; row < completion.length; row++)
            sums[which] += klOf(own[at] as Float32Array, references[index]?.[which][at] as Float32Array, row, V)
      }
    }
    return { parent: sums.parent / tokens, base: sums.base / tokens }
  }
}
