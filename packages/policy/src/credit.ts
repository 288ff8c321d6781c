/**
 * Loss weights of the response tokens of a batch, from recorded and recomputed log-probabilities (in nats), as plain
 * numbers. Importance weights: decoupled PPO (Hilton et al. 2021), truncated.
 */
import type { StepSettings } from '@instar/engine/port'

/** Log-ratios are clamped to ± this before exp. */
export const MAX_LOG_RATIO = 20

/**
 * Margin in nats: a hint is dropped unless it lowers the log-probability of its turn's whole answer by more than
 * this.
 */
export const HINT_MARGIN = 0.1

/** The per-token inputs of one turn, computed before the first gradient. */
export type TurnTokens = {
  advantage: number
  /** Recorded by the engine that sampled: q. */
  behaviour: ArrayLike<number>
  /** The learner's, on the parent adapter: p_old. */
  old: ArrayLike<number>
  /** The base model's, without and with the hint in the prompt; null without a hint. */
  hint: { without: ArrayLike<number>; with: ArrayLike<number> } | null
}

export type TurnWeights = {
  /** Per token: truncated importance over the number of response tokens in the batch; zeros where masked. */
  policy: Float32Array
  /** Per token, alike for all tokens of a turn. */
  opd: number
  kl: number
  masked: boolean
  hintDropped: boolean
}

const total = (values: ArrayLike<number>): number => {
  let sum = 0
  for (let at = 0; at < values.length; at++) sum += values[at] as number
  return sum
}
const mean = (values: ArrayLike<number>): number => (values.length === 0 ? 0 : total(values) / values.length)

/**
 * Weights w, o and k of loss.ts:
 * - Policy: the mean over all response tokens of the batch. Importance min(p_old/q, tisCap) per token; a turn whose
 *   geometric mean of p_old/q leaves [1/sequenceMask, sequenceMask] gets zeros but counts in the denominator.
 * - OPD: the mean over the tokens of turns with a hint, times opdWeight. The probabilities of one answer do not show
 *   whether a hint raises compliance; they show whether it argues against the answer. When the base model with the
 *   hint finds the answer of the failed turn as likely as without it (within HINT_MARGIN), or likelier, the hint is
 *   dropped: its teacher would equal the base model. The sum over the answer is compared, not the mean per token,
 *   since a hint may be about one token in forty.
 * - KL: the mean over all response tokens, times klWeight · min(1, mean|A| / klFullAtAdvantage). Without this factor
 *   a batch without signal would be an update of KL alone, to which Adam gives full steps.
 */
export function tokenWeights(turns: readonly TurnTokens[], settings: StepSettings): TurnWeights[] {
  const dropped = turns.map(({ hint }) => hint !== null && total(hint.with) >= total(hint.without) - HINT_MARGIN)
  const tokens = turns.reduce((sum, turn) => sum + turn.old.length, 0)
  const hinted = turns.reduce((sum, turn, at) => sum + (turn.hint && !dropped[at] ? turn.old.length : 0), 0)
  const meanAbs = mean(turns.map((turn) => Math.abs(turn.advantage)))
  const klScale = settings.klFullAtAdvantage > 0 ? Math.min(1, meanAbs / settings.klFullAtAdvantage) : 1
  return turns.map((turn, at) => {
    const gaps = Array.from(turn.old, (old, token) => old - (turn.behaviour[token] as number))
    const masked = Math.abs(mean(gaps)) > Math.log(settings.sequenceMask)
    const policy = Float32Array.from(gaps, (gap) =>
      masked ? 0 : Math.min(Math.exp(Math.min(gap, MAX_LOG_RATIO)), settings.tisCap) / tokens,
    )
    return {
      policy,
      opd: turn.hint && !dropped[at] ? settings.opdWeight / hinted : 0,
      kl: (settings.klWeight * klScale) / tokens,
      masked,
      hintDropped: dropped[at] ?? false,
    }
  })
}
