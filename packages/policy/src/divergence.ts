/** Mean KL divergence of a candidate to the parent adapter and to the base model, on a sample of a batch's tokens. */
import { klsOf } from './distribution.ts'
import { completionLogprobs, rowBatches } from './forward.ts'
import type { ScoredSequence } from './forward.ts'
import type { Runtime } from './runtime/runtime.ts'
import type { Divergences } from './trust-region.ts'

/** Bytes of the two references' log-probabilities [tokens, V] at most. */
const REFERENCE_BYTES = 128 * 1024 * 1024
/** Response tokens measured at most. */
const TOKENS = 512

type Sequence = Omit<ScoredSequence, 'slot'>

/** Response tokens of each of `turns` turns that are measured. */
export const measuredTokens = (turns: number, vocabulary: number): number =>
  Math.max(1, Math.floor(Math.min(TOKENS, Math.floor(REFERENCE_BYTES / (8 * vocabulary))) / turns))

/**
 * The sample: the first response tokens of every turn, equally many, so that no long answer is the measure. Answers
 * sampled from the parent (or an ancestor) give an estimate under its distribution of contexts.
 */
export function measuredPart(items: readonly Sequence[], vocabulary: number): Sequence[] {
  const each = measuredTokens(items.length, vocabulary)
  return items.map(({ prompt, completion, temperature }) => ({
    prompt,
    completion: completion.slice(0, each),
    temperature,
  }))
}

/** Log-probabilities [measured tokens, V] of one turn under the parent and the base; null: not known yet. */
export type KnownReferences = { parent: Float32Array | null; base: Float32Array | null }

/**
 * Measures the adapter in a slot: one forward pass over the sample. `slots`: of the references; null: the weights alone. `microBatchTokens`: of StepSettings. `known`: per turn
 * the references of its measured tokens; those that are not known are computed once. `passed` is called after each pass
 * with its number of sequences.
 */
export async function divergenceMeter(
  runtime: Runtime,
  items: readonly Sequence[],
  slots: { parent: number | null; base: number | null },
  microBatchTokens: number,
  known: readonly KnownReferences[] = [],
  passed: (sequences: readonly Sequence[]) => void = () => undefined,
): Promise<(slot: number) => Promise<Divergences>> {
  const V = runtime.config.vocabulary
  const sample = measuredPart(items, V).map((sequence, index) => ({ sequence, index }))
  const groups = rowBatches(sample, ({ sequence }) => sequence, microBatchTokens)
  const rows = async (group: typeof sample, slot: number | null): Promise<Float32Array[]> => {
    const found = await completionLogprobs(
      runtime,
      group.map(({ sequence }) => ({ ...sequence, slot })),
    )
    passed(group.map(({ sequence }) => sequence))
    return found
  }
  const references = { parent: new Map<number, Float32Array>(), base: new Map<number, Float32Array>() }
  for (const [which, slot] of [
    ['parent', slots.parent],
    ['base', slots.base],
  ] as const)
    for (const group of groups) {
      const unknown = group.filter(({ index }) => !known[index]?.[which])
      const computed = unknown.length > 0 ? await rows(unknown, slot) : []
      for (const { index } of group) {
        const own = known[index]?.[which] ?? computed[unknown.findIndex((one) => one.index === index)]
        if (own) references[which].set(index, own)
      }
    }
  return async (slot) => {
    const sums = { parent: 0, base: 0 }
    let tokens = 0
    for (const group of groups) {
      const own = await rows(group, slot)
      for (const [at, { index, sequence }] of group.entries()) {
        const { completion } = sequence
        tokens += completion.length
        const both = [references.parent.get(index) as Float32Array, references.base.get(index) as Float32Array]
        for (let row = 0; row < completion.length; row++) {
          const [parent = 0, base = 0] = klsOf(own[at] as Float32Array, both, row, V)
          sums.parent += parent
          sums.base += base
        }
      }
    }
    return { parent: sums.parent / tokens, base: sums.base / tokens }
  }
}
