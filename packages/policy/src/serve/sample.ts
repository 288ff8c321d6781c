/** Sampling of one token from a row of logits. The functions are pure: the caller passes the random number. */
import { InstarError } from '@instar/events/errors'
import type { Sampling } from '@instar/engine/port'

type TokenCandidate = { id: number; logprob: number }
/** `logprob`: natural log of the probability of `id` in the distribution after filters and renormalisation. */
type SampledToken = { id: number; logprob: number; top: TokenCandidate[] }

/** log Σ exp(x / temperature), in float64. Throws `internal` if the logits contain NaN or +∞, or only −∞. */
export function logSumExp(logits_V: Float32Array, temperature: number): number {
  let max = -Infinity
  for (let id = 0; id < logits_V.length; id++) if (logits_V[id]! > max) max = logits_V[id]!
  let sum = 0
  for (let id = 0; id < logits_V.length; id++) sum += Math.exp((logits_V[id]! - max) / temperature)
  // The sum is NaN if a logit is NaN or all are −∞.
  if (!(sum > 0) || !Number.isFinite(max))
    throw new InstarError('internal', 'The model returned logits that are not finite.')
  return max / temperature + Math.log(sum)
}

/** Log-probability of one token at `temperature` (0 is treated as 1), without filters. */
export function logprobOf(logits_V: Float32Array, id: number, temperature: number): number {
  const t = temperature === 0 ? 1 : temperature
  return logits_V[id]! / t - logSumExp(logits_V, t)
}

/** The order of greedy sampling, top-k and top-p: higher logits first, lower ids first among equals. */
function before(logits_V: Float32Array, a: number, b: number): boolean {
  const x = logits_V[a]!
  const y = logits_V[b]!
  return x > y || (x === y && a < b)
}

/** Ids of the `k` highest logits in that order. Uses a heap whose root is the last of them: O(V log k). */
export function highest(logits_V: Float32Array, k: number): number[] {
  const size = Math.min(k, logits_V.length)
  if (size === 1) {
    let best = 0
    for (let id = 1; id < logits_V.length; id++) if (logits_V[id]! > logits_V[best]!) best = id
    return [best]
  }
  const heap: number[] = []
  const sink = (start: number) => {
    let at = start
    for (;;) {
      let worst = at
      for (const child of [2 * at + 1, 2 * at + 2])
        if (child < heap.length && before(logits_V, heap[worst]!, heap[child]!)) worst = child
      if (worst === at) return
      ;[heap[at], heap[worst]] = [heap[worst]!, heap[at]!]
      at = worst
    }
  }
  for (let id = 0; id < size; id++) heap.push(id)
  for (let at = size >> 1; at >= 0; at--) sink(at)
  for (let id = size; id < logits_V.length && size > 0; id++) {
    if (!before(logits_V, id, heap[0]!)) continue
    heap[0] = id
    sink(0)
  }
  return heap.sort((a, b) => (before(logits_V, a, b) ? -1 : 1))
}

/**
 * The shortest prefix of the tokens by descending probability whose total reaches `topP` of the mass of all tokens, or
 * of `among`. Sorts increasingly long prefixes, since the result is short for most rows.
 */
function nucleus(logits_V: Float32Array, temperature: number, topP: number, among: readonly number[] | null): number[] {
  const total = among
    ? logSumExp(
        Float32Array.from(among, (id) => logits_V[id]!),
        temperature,
      )
    : logSumExp(logits_V, temperature)
  for (let size = 64; ; size *= 8) {
    const ordered = among ?? highest(logits_V, size)
    let mass = 0
    for (let i = 0; i < ordered.length; i++) {
      mass += Math.exp(logits_V[ordered[i]!]! / temperature - total)
      if (mass >= topP) return ordered.slice(0, i + 1)
    }
    if (among || size >= logits_V.length) return [...ordered]
  }
}

/** Removes tokens of probability zero, such as those that a constraint masks. */
const withoutMasked = (top: TokenCandidate[]): TokenCandidate[] => top.filter(({ logprob }) => logprob > -Infinity)

/**
 * Applies temperature, top-k and top-p in this order (that of vLLM and Hugging Face), renormalises, and samples by
 * inverse transform with `u` in [0, 1). Temperature 0 is greedy and reports the log-probability at temperature 1.
 * `top`: the `topLogprobs` most likely tokens of the same distribution.
 */
export function sample(
  logits_V: Float32Array,
  sampling: Pick<Sampling, 'temperature' | 'topK' | 'topP'>,
  u: number,
  topLogprobs: number,
): SampledToken {
  const { temperature, topK, topP } = sampling
  if (temperature === 0) {
    const total = logSumExp(logits_V, 1)
    const ids = highest(logits_V, Math.max(1, topLogprobs))
    const id = ids[0]!
    return {
      id,
      logprob: logits_V[id]! - total,
      top: withoutMasked(ids.slice(0, topLogprobs).map((other) => ({ id: other, logprob: logits_V[other]! - total }))),
    }
  }
  /** Ids after the filters, by descending probability; null: all. */
  let filtered: number[] | null = topK > 0 && topK < logits_V.length ? highest(logits_V, topK) : null
  if (topP < 1) filtered = nucleus(logits_V, temperature, topP, filtered)
  const total = filtered
    ? logSumExp(
        Float32Array.from(filtered, (id) => logits_V[id]!),
        temperature,
      )
    : logSumExp(logits_V, temperature)
  const count = filtered ? filtered.length : logits_V.length
  let mass = 0
  let id = -1
  for (let i = 0; i < count; i++) {
    const candidate = filtered ? filtered[i]! : i
    const p = Math.exp(logits_V[candidate]! / temperature - total)
    if (p === 0) continue
    id = candidate
    mass += p
    if (mass > u) break
  }
  const top =
    topLogprobs === 0
      ? []
      : (filtered ? filtered.slice(0, topLogprobs) : highest(logits_V, topLogprobs)).map((other) => ({
          id: other,
          logprob: logits_V[other]! / temperature - total,
        }))
  return { id, logprob: logits_V[id]! / temperature - total, top: withoutMasked(top) }
}
