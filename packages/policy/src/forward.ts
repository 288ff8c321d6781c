/** Log-probabilities (nats) that a policy assigns to given completions, without gradients. */
import { inverseTemperature, logSoftmaxRows } from './distribution.ts'
import type { KvCache } from './runtime/cache.ts'
import type { Runtime } from './runtime/runtime.ts'
import { rowsAfter } from './shared-prefix.ts'

/** A completion to score after its prompt (token ids). `slot`: adapter slot; null is the base model. */
export type ScoredSequence = {
  prompt: readonly number[]
  completion: readonly number[]
  temperature: number
  slot: number | null
}

type Sequence = Pick<ScoredSequence, 'prompt' | 'completion'> & { slot?: number | null }

/** Ids that a forward pass reads: all but the last, since its prediction is not used. */
const inputsOf = ({ prompt, completion }: Sequence): number[] => [...prompt, ...completion.slice(0, -1)]

const startsWith = (ids: readonly number[], prefix: readonly number[]): boolean =>
  prefix.length <= ids.length && prefix.every((id, at) => ids[at] === id)

/**
 * Sequences that share a row, as indices: each is a prefix of the first, with the same adapter. The turns of one
 * conversation are such sequences, and a position of a causal model does not depend on what follows. Rows are in the order
 * of descending length, then of `sequences`.
 */
function sharedRows(sequences: readonly Sequence[]): { ids: number[]; members: number[] }[] {
  const rows: { ids: number[]; slot: number | null; members: number[] }[] = []
  const sorted = sequences
    .map((sequence, index) => ({ index, slot: sequence.slot ?? null, ids: inputsOf(sequence) }))
    .sort((a, b) => b.ids.length - a.ids.length || a.index - b.index)
  for (const { index, slot, ids } of sorted) {
    const row = rows.find((one) => one.slot === slot && startsWith(one.ids, ids))
    if (row) row.members.push(index)
    else rows.push({ ids, slot, members: [index] })
  }
  return rows
}

/**
 * Groups items by descending length into micro-batches of at most `limit` positions each, padding included; a longer one
 * forms a micro-batch of its own. The order of equal lengths is that of `items`.
 */
export function microBatches<T>(items: readonly T[], length: (item: T) => number, limit: number): T[][] {
  const sorted = items
    .map((item, index) => ({ item, index, size: length(item) }))
    .sort((a, b) => b.size - a.size || a.index - b.index)
  const groups: T[][] = []
  let group: T[] = []
  let widest = 0
  for (const { item, size } of sorted) {
    if (group.length > 0 && (group.length + 1) * widest > limit) {
      groups.push(group)
      group = []
    }
    if (group.length === 0) widest = size
    group.push(item)
  }
  if (group.length > 0) groups.push(group)
  return groups
}

/** As `microBatches`, for items whose sequences may share rows: items of one row are in one micro-batch. */
export function rowBatches<T>(items: readonly T[], sequence: (item: T) => Sequence, limit: number): T[][] {
  const rows = sharedRows(items.map(sequence))
  return microBatches(rows, ({ ids }) => ids.length, limit).map((group) =>
    group.flatMap(({ members }) => members.map((index) => items[index] as T)),
  )
}

/**
 * Token ids [B · T] of sequences in shared rows, padded on the right. `slots`, `counts`: adapter slot and ids of each row;
 * `places`: for each completion token, in the order of `sequences`, the index in `ids` whose logits predict it.
 */
export function padded(sequences: readonly Sequence[]): {
  ids: Int32Array
  B: number
  T: number
  slots: (number | null)[]
  counts: number[]
  places: number[]
} {
  const rows = sharedRows(sequences)
  const T = Math.max(...rows.map((row) => row.ids.length))
  const ids = new Int32Array(rows.length * T)
  const rowOf = new Map<number, number>()
  rows.forEach((row, at) => {
    ids.set(row.ids, at * T)
    for (const index of row.members) rowOf.set(index, at)
  })
  const places = sequences.flatMap(({ prompt, completion }, index) =>
    completion.map((_, j) => (rowOf.get(index) ?? 0) * T + prompt.length - 1 + j),
  )
  const slots = rows.map(({ members: [first = 0] }) => sequences[first]?.slot ?? null)
  return { ids, B: rows.length, T, slots, counts: rows.map((row) => row.ids.length), places }
}

/**
 * For each sequence the log-probabilities [completion length, V] at its temperature, parts of one array. One forward pass.
 * `prefix`: one row with what precedes each prompt; all sequences have its adapter. Throws `RangeError` for a row beyond the
 * context length.
 */
export async function completionLogprobs(
  runtime: Runtime,
  sequences: readonly ScoredSequence[],
  prefix: KvCache | null = null,
): Promise<Float32Array[]> {
  if (sequences.length === 0) return []
  const { ids, B, T, slots, counts, places } = padded(sequences)
  const { logits, vocabulary: V } = await runtime.decodeStep({
    ids,
    T,
    cache: rowsAfter(runtime, prefix, B),
    rowSlots: slots,
    counts,
    logits: places,
    keep: false,
  })
  const scale = sequences.flatMap((row) => row.completion.map(() => inverseTemperature(row.temperature)))
  logSoftmaxRows(logits, places.length, V, (row) => scale[row] as number)
  let start = 0
  return sequences.map((row) => {
    const part = logits.subarray(start * V, (start + row.completion.length) * V)
    start += row.completion.length
    return part
  })
}

/** Log-probabilities [completion length] of the completion's own tokens, from those of the whole vocabulary. */
export function ownLogprobs(logp: Float32Array, completion: readonly number[]): Float32Array {
  const V = completion.length === 0 ? 0 : logp.length / completion.length
  return Float32Array.from(completion, (id, at) => logp[at * V + id] as number)
}
