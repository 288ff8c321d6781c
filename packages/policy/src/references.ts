/**
 * The distributions of base and teacher on the tokens of an answer, to which the policy's KL is taken: whole, or reduced
 * to the `topK` most likely tokens and the probability of all others together (the tail).
 *
 * The KL divergence between distributions over these topK + 1 buckets is at most that over the vocabulary (data
 * processing inequality). Both tails are at least MIN_TAIL, since float32 holds no smaller difference to 1; this moves
 * the KL by less than 1e-5.
 */

import { logSoftmaxRows } from './distribution.ts'

/** Smallest probability of a tail, of reference and policy alike. */
export const MIN_TAIL = 1e-6

/**
 * References of R tokens. Whole: `logp` is [R, V] and `ids` null. Reduced: `ids` [R, topK], ascending in each row, and
 * `logp` [R, topK + 1], whose last column is that of the tail.
 */
export type Reference = { ids: Int32Array | null; logp: Float32Array }

/** Whether references of `topK` tokens are kept of a vocabulary of V; otherwise whole distributions are. */
export const isReduced = (topK: number, V: number): boolean => topK > 0 && topK < V

/** Bytes that the reference of one token takes. */
export const bytesPerToken = (topK: number, V: number): number => (isReduced(topK, V) ? 8 * topK + 4 : 4 * V)

/**
 * The reference of log-probabilities [R, V]. A reduced one keeps the most likely tokens of each row; of equally likely
 * ones those of lower id.
 */
export function referenceOf(logp: Float32Array, V: number, topK: number): Reference {
  if (!isReduced(topK, V)) return { ids: null, logp }
  const R = logp.length / V
  const ids = new Int32Array(R * topK)
  const kept = new Float32Array(R * (topK + 1))
  for (let row = 0; row < R; row++) {
    const own = logp.subarray(row * V, (row + 1) * V)
    const top = mostLikely(own, topK)
    ids.set(top, row * topK)
    const from = row * (topK + 1)
    let tail = 0
    let next = 0
    for (let v = 0; v < V; v++) {
      if (v === top[next]) kept[from + next++] = own[v] as number
      else tail += Math.exp(own[v] as number)
    }
    kept[from + topK] = Math.log(Math.max(tail, MIN_TAIL))
  }
  return { ids, logp: kept }
}

/**
 * The teacher [R, V] that prefers more strongly what a hint changes: the softmax of base + contrast · (hinted − base), where both
 * are log-probabilities [R, V] of the base model, without and with the hint (context-aware decoding, arXiv 2305.14739, with
 * α = contrast − 1). Whole distributions, so that a reduced reference of it is exact. 1: `hinted` itself.
 */
export function contrastedTeacher(hinted: Float32Array, base: Float32Array, V: number, contrast: number): Float32Array {
  if (contrast === 1) return hinted
  const teacher = hinted.map((value, at) => {
    const without = base[at] as number
    return without + contrast * (value - without)
  })
  logSoftmaxRows(teacher, teacher.length / V, V, () => 1)
  return teacher
}

/** Indices of the `count` largest values in ascending order. `heap`: the smallest of those kept is at its root. */
function mostLikely(values: Float32Array, count: number): Int32Array {
  const heap = new Int32Array(count)
  /** Whether the value at index a is removed before that at b: it is smaller, or equal and later. */
  const before = (a: number, b: number): boolean => {
    const [x, y] = [values[a] as number, values[b] as number]
    return x < y || (x === y && a > b)
  }
  const sink = (from: number): void => {
    let at = from
    const index = heap[at] as number
    for (;;) {
      let child = 2 * at + 1
      if (child >= count) break
      if (child + 1 < count && before(heap[child + 1] as number, heap[child] as number)) child++
      if (!before(heap[child] as number, index)) break
      heap[at] = heap[child] as number
      at = child
    }
    heap[at] = index
  }
  for (let v = 0; v < count; v++) heap[v] = v
  for (let at = (count >> 1) - 1; at >= 0; at--) sink(at)
  for (let v = count; v < values.length; v++) {
    if ((values[v] as number) <= (values[heap[0] as number] as number)) continue
    heap[0] = v
    sink(0)
  }
  return heap.sort()
}

/** The rows of several references, all whole or all reduced, as one. */
export function joined(parts: readonly Reference[]): Reference {
  const logp = new Float32Array(parts.reduce((sum, part) => sum + part.logp.length, 0))
  const ids = new Int32Array(parts.reduce((sum, part) => sum + (part.ids?.length ?? 0), 0))
  let at = 0
  let idAt = 0
  for (const part of parts) {
    logp.set(part.logp, at)
    at += part.logp.length
    if (!part.ids) continue
    ids.set(part.ids, idAt)
    idAt += part.ids.length
  }
  return { ids: ids.length > 0 ? ids : null, logp }
}
