/** Log-probabilities (nats) that a policy assigns to given completions, without gradients. */
import { inverseTemperature, logSoftmaxRows } from './distribution.ts'
import type { Runtime } from './runtime/runtime.ts'

/** A completion to score after its prompt (token ids). `slot`: adapter slot; null is the base model. */
export type ScoredSequence = {
  prompt: readonly number[]
  completion: readonly number[]
  temperature: number
  slot: number | null
}

/**
 * Groups sequences by descending length into micro-batches of at most `limit` positions each, padding included; a
 * longer sequence forms a micro-batch of its own. The order of equal lengths is that of `items`.
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

/**
 * Token ids of prompt + completion [rows · T], padded on the right. The last token is left out, since its prediction is
 * not used. `counts`: ids per row; `places`: for each completion token the index in `ids` whose logits predict it.
 */
export function padded(rows: readonly { prompt: readonly number[]; completion: readonly number[] }[]): {
  ids: Int32Array
  T: number
  counts: number[]
  places: number[]
} {
  const counts = rows.map((row) => row.prompt.length + row.completion.length - 1)
  const T = Math.max(...counts)
  const ids = new Int32Array(rows.length * T)
  const places: number[] = []
  rows.forEach((row, at) => {
    ids.set(row.prompt, at * T)
    ids.set(row.completion.slice(0, -1), at * T + row.prompt.length)
    for (let j = 0; j < row.completion.length; j++) places.push(at * T + row.prompt.length - 1 + j)
  })
  return { ids, T, counts, places }
}

/**
 * For each row the log-probabilities [completion length, V] at its temperature. One forward pass for all rows. Throws
 * `RangeError` for a row beyond the context length.
 */
export async function completionLogprobs(runtime: Runtime, rows: readonly ScoredSequence[]): Promise<Float32Array[]> {
  if (rows.length === 0) return []
  const { ids, T, counts, places } = padded(rows)
  const { logits, vocabulary: V } = await runtime.decodeStep({
    ids,
    T,
    cache: runtime.createCache(rows.length),
    rowSlots: rows.map((row) => row.slot),
    counts,
    logits: places,
    keep: false,
  })
  const scale = rows.flatMap((row) => row.completion.map(() => inverseTemperature(row.temperature)))
  logSoftmaxRows(logits, places.length, V, (row) => scale[row] as number)
  let start = 0
  return rows.map((row) => {
    const part = logits.slice(start * V, (start + row.completion.length) * V)
    start += row.completion.length
    return part
  })
}

/** Log-probabilities [completion length] of the completion's own tokens, from those of the whole vocabulary. */
export function ownLogprobs(logp: Float32Array, completion: readonly number[]): Float32Array {
  const V = completion.length === 0 ? 0 : logp.length / completion.length
  return Float32Array.from(completion, (id, at) => logp[at * V + id] as number)
}
