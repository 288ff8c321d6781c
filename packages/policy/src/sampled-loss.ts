/**
 * The loss of an update in its form for engines that report log-probabilities of the sampled tokens only: a Tinker
 * server (Tinker HTTP API), and the embedded engine under `sampledTokens`. Plain numbers, nats; all log-probabilities
 * are those at temperature 1. With n over the response tokens of the batch:
 *
 *   loss = Σ_n w_n · max(−r_n A_n, −clip(r_n, 1 − εl, 1 + εh) A_n)     policy term, as in loss.ts
 *        + Σ_n o_n ω_n · h(lp_n − teacher_n)                           OPD term, teacher = base + γ (hinted − base)
 *        + Σ_n k_n ω_n · h(lp_n − base_n)                              KL term
 *
 * lp is the log-probability of the sampled token now, r = exp(lp − old), ω the truncated importance weight
 * (token-weights.ts) and h(x) = x²/2 for |x| ≤ c, c · (|x| − c/2) beyond, c = `logRatioMax` (Huber 1964, doi
 * 10.1214/aoms/1177703732). h' is the log-ratio clipped to ± c, so the gradient Σ o ω · clip(lp − teacher) · ∇lp is the
 * sampled-token estimate of that of the reverse KL, E_p[(log p − log teacher) ∇ log p] (Williams 1992, doi
 * 10.1007/BF00992696): on-policy distillation with the log-ratio as a token's advantage. c bounds the share of one token:
 * without it a log-ratio of 8 nats outweighs a batch.
 *
 * γ is `opdContrast`. Where it is not 1 the teacher lacks its normaliser, which the sampled tokens do not give. It is the same
 * for all tokens of a place, so that before the clip the expected gradient is that of the normalised teacher: E_p[∇ lp] = 0.
 *
 * `gradient` is d loss / d lp. An engine whose loss is linear in lp at ratio 1 (`importance_sampling`: −exp(lp − q) · A
 * with q = lp and A = −gradient) then has exactly the gradient Σ_n gradient_n · ∇lp_n of this loss.
 */
import type { StepSettings } from '@instar/engine/port'
import { MAX_LOG_RATIO, type TurnWeights } from './token-weights.ts'

/** Default of `logRatioMax`, nats. */
const LOG_RATIO_MAX = 2

/**
 * One turn: [tokens] each. `base`, `teacher`: of the base model, without and with the hint; null if their weight is 0, and `base`
 * never where there is a teacher and a contrast.
 */
export type SampledTurn = {
  advantage: number
  weights: Pick<TurnWeights, 'policy' | 'importance' | 'opd' | 'kl'>
  /** Before the first step, and now. */
  old: ArrayLike<number>
  now: ArrayLike<number>
  base: ArrayLike<number> | null
  teacher: ArrayLike<number> | null
}

export type SampledLoss = {
  policy: number
  opd: number
  kl: number
  loss: number
  /** d loss / d lp, one array [tokens] per turn. */
  gradients: Float64Array[]
  /** Tokens whose policy gradient is zero because their ratio was clipped. */
  clipped: number
}

type Constants = Pick<StepSettings, 'clipLow' | 'clipHigh' | 'logRatioMax' | 'opdContrast'>

const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most)

const huber = (x: number, c: number): number => (Math.abs(x) <= c ? (x * x) / 2 : c * (Math.abs(x) - c / 2))

const contrasted = (hinted: ArrayLike<number>, base: ArrayLike<number> | null, contrast: number): ArrayLike<number> => {
  if (contrast === 1) return hinted
  if (!base) throw new Error('a contrast needs the log-probabilities of the base model')
  return Array.from(hinted, (value, at) => {
    const without = base[at] as number
    return without + contrast * (value - without)
  })
}

/** The policy term of one token at weight 1, and its derivative. */
const clippedToken = (now: number, old: number, advantage: number, { clipLow, clipHigh }: Constants) => {
  const gap = clamp(now - old, -MAX_LOG_RATIO, MAX_LOG_RATIO)
  const ratio = Math.exp(gap)
  const plain = ratio * advantage
  const bounded = clamp(ratio, 1 - clipLow, 1 + clipHigh) * advantage
  const clipped = bounded < plain
  return { value: -Math.min(plain, bounded), slope: clipped || gap !== now - old ? 0 : -plain, clipped }
}

/** The loss of a batch, or of a part of it, and its derivative by each log-probability of `now`. */
export function sampledLoss(turns: readonly SampledTurn[], settings: Constants): SampledLoss {
  const c = settings.logRatioMax ?? LOG_RATIO_MAX
  const sums = { policy: 0, opd: 0, kl: 0, clipped: 0 }
  const gradients = turns.map(({ advantage, weights, old, now, base, teacher }) => {
    const gradient = new Float64Array(now.length)
    const target = teacher && contrasted(teacher, base, settings.opdContrast ?? 1)
    for (let at = 0; at < now.length; at++) {
      const lp = now[at] as number
      const token = clippedToken(lp, old[at] as number, advantage, settings)
      const weight = weights.policy[at] as number
      sums.policy += weight * token.value
      if (token.clipped) sums.clipped++
      let slope = weight * token.slope
      for (const [term, reference, termWeight] of [
        ['opd', target, weights.opd],
        ['kl', base, weights.kl],
      ] as const) {
        if (!reference || termWeight === 0) continue
        const ratio = lp - (reference[at] as number)
        const own = termWeight * (weights.importance[at] as number)
        sums[term] += own * huber(ratio, c)
        slope += own * clamp(ratio, -c, c)
      }
      gradient[at] = slope
    }
    return gradient
  })
  return { ...sums, loss: sums.policy + sums.opd + sums.kl, gradients }
}

/** Whether the recorded log-probabilities of a turn are of the distribution at temperature 1; greedy ones are. */
export const isUntempered = (temperature: number): boolean => temperature === 0 || temperature === 1

/**
 * Estimates in nats per token, never negative, from tokens that were sampled before the step: KL(now ‖ old) as the mean of
 * r log r − r + 1, and KL(now ‖ base) as the mean of r · (e^d − d − 1) with d = base − lp (Schulman 2020, "Approximating KL
 * divergence", k3). NaN for `base` if no turn has it. Log-ratios are clamped to ± MAX_LOG_RATIO.
 */
export function sampledDivergences(turns: readonly Pick<SampledTurn, 'old' | 'now' | 'base'>[]): {
  parent: number
  base: number
} {
  const sums = { parent: 0, base: 0, tokens: 0, withBase: 0 }
  for (const { old, now, base } of turns) {
    for (let at = 0; at < now.length; at++) {
      const gap = clamp((now[at] as number) - (old[at] as number), -MAX_LOG_RATIO, MAX_LOG_RATIO)
      const ratio = Math.exp(gap)
      sums.parent += ratio * gap - ratio + 1
      sums.tokens++
      if (!base) continue
      const d = clamp((base[at] as number) - (now[at] as number), -MAX_LOG_RATIO, MAX_LOG_RATIO)
      sums.base += ratio * (Math.exp(d) - d - 1)
      sums.withBase++
    }
  }
  return { parent: sums.parent / sums.tokens, base: sums.base / sums.withBase }
}
