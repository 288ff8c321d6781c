/**
 * KL(p ‖ q) from log-probs of a few tokens, where p sampled one token at each position. Natural logarithms throughout.
 *
 * By the chain rule, with S the likeliest tokens of p and all others as one bucket:
 *   KL = Σ_{i in S} p_i log(p_i/q_i) + P log(P/Q) + P · KL(rest of p ‖ rest of q),   P = 1 − Σ p_i, Q = 1 − Σ q_i.
 * The first two terms are known. The last one is estimated on the sampled token x: 0 if x is in S, else k3 of Schulman
 * (2020, "Approximating KL Divergence") of the conditional distributions, r − 1 − log r with r = (q(x)/Q) / (p(x)/P). The
 * expectation over x is the KL; every term is at least 0. Without S it is k3 of the sampled token.
 */

/** `top`: the likeliest tokens of p, chosen without regard to the sampled one; `sampled`: of p. */
export type SampledPosition = {
  top: readonly { id: number; logprob: number }[]
  sampled: { id: number; logprob: number }
}

/** Probability below which the rest of a distribution is rounding error of float32 log-probs. */
const REST_MIN = 1e-6

/** An unbiased estimate of KL(p ‖ q) at one position. `q`: log-probs of the tokens of `top` and of the sampled one, by id. */
export const klAt = ({ top, sampled }: SampledPosition, q: ReadonlyMap<number, number>): number => {
  let [kl, restP, restQ] = [0, 1, 1]
  let isTop = false
  for (const { id, logprob } of top) {
    const other = logprobIn(q, id)
    kl += Math.exp(logprob) * (logprob - other)
    restP -= Math.exp(logprob)
    restQ -= Math.exp(other)
    isTop ||= id === sampled.id
  }
  restP = Math.max(restP, REST_MIN)
  restQ = Math.max(restQ, REST_MIN)
  kl += restP * Math.log(restP / restQ)
  if (isTop) return kl
  const logRatio = logprobIn(q, sampled.id) - Math.log(restQ) - (sampled.logprob - Math.log(restP))
  return kl + Math.expm1(logRatio) - logRatio
}

const logprobIn = (q: ReadonlyMap<number, number>, id: number): number => {
  const logprob = q.get(id)
  if (logprob === undefined) throw new RangeError(`no log-prob of token ${id}`)
  return logprob
}

/** An unbiased estimate of the entropy of p at one position: the likeliest tokens summed, the rest on the sampled token. */
export const entropyAt = ({ top, sampled }: SampledPosition): number => {
  let entropy = 0
  let isTop = false
  for (const { id, logprob } of top) {
    entropy -= Math.exp(logprob) * logprob
    isTop ||= id === sampled.id
  }
  return isTop ? entropy : entropy - sampled.logprob
}

/**
 * The mean over all tokens and its standard error, with the answers as clusters: the tokens of one are not independent.
 * `answers`: values of the tokens of each answer. The error of fewer than two answers is 0.
 */
export const meanOverTokens = (answers: readonly (readonly number[])[]): { mean: number; error: number } => {
  const sums = answers.map((values) => values.reduce((sum, value) => sum + value, 0))
  const tokens = answers.reduce((sum, { length }) => sum + length, 0)
  if (tokens === 0) return { mean: 0, error: 0 }
  const mean = sums.reduce((sum, value) => sum + value, 0) / tokens
  const n = answers.length
  if (n < 2) return { mean, error: 0 }
  const squares = answers.reduce((sum, { length }, at) => sum + (sums[at]! - mean * length) ** 2, 0)
  return { mean, error: Math.sqrt((squares * n) / (n - 1)) / tokens }
}
