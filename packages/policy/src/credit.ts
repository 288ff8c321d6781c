/** What each response token of a batch weighs in the loss, from recorded and recomputed log-probabilities. Plain numbers. */
import type { StepSettings } from '@instar/engine/port'

/** Log-ratios are cut at ± this before they are exponentiated. */
export const MAX_LOG_RATIO = 20

/** A hint is dropped unless it makes the sampled answer of its turn less likely by more than this, in nats for the whole answer. */
export const HINT_MARGIN = 0.1

/** One turn of a batch with everything that is known of its tokens before the first gradient. */
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
 * - Policy: the mean over all response tokens of the batch. Importance min(p_old/q, tisCap) per token; a turn
 *   whose geometric mean of p_old/q leaves [1/sequenceMask, sequenceMask] gets zeros but keeps its place in the
 *   denominator.
 * - OPD: the mean over the tokens of turns with a hint, times opdWeight. Whether a hint raises the model's own
 *   compliance cannot be seen in the probabilities of one answer; what can be seen is whether the hint argues
 *   against what was said. Where the base model with the hint finds the answer of the failed turn as likely as
 *   without it (within HINT_MARGIN), or likelier, the hint is not understood or is about something else: all
 *   that it would teach is the base model, and it is dropped. The whole answer counts, not its mean token: what
 *   a hint is about may be one token in forty.
 * - KL: the mean over all response tokens, times klWeight · min(1, mean|A| / klFullAtAdvantage): a batch without
 *   signal must not be an update of KL alone, to which Adam would give full steps.
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
