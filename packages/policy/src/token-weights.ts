/**
 * The weights of turns and tokens in the loss (w, o and k of loss.ts) of one batch, computed from recorded and
 * recomputed log-probabilities (nats) on plain numbers. The importance weights p_old/q are those of the decoupled PPO
 * objective (Hilton et al., arXiv 2110.00641, section 2), truncated from above (truncated importance sampling, Ionides
 * 2008, doi 10.1198/106186008X320456).
 */
import type { StepSettings } from '@instar/engine/port'
import { largestShare, personScales, type Person } from './person-share.ts'

/** Bound of log-ratios in nats; they are clamped to ± this before exp. */
export const MAX_LOG_RATIO = 20

/**
 * In nats. A hint is dropped unless the teacher's log-probability of the whole answer is lower by more than this.
 */
const HINT_MARGIN = 0.1

/** The advantage of one turn, and log-probabilities of its response tokens, computed before the first gradient. */
export type TurnTokens = Person & {
  advantage: number
  /** log q, recorded by the engine that sampled. */
  behaviour: ArrayLike<number>
  /** log p_old, of the learner with the parent adapter. */
  old: ArrayLike<number>
  /** Of the base model, and of the teacher: the base with the hint in the prompt, contrasted or not; null without a hint. */
  hint: { without: ArrayLike<number>; with: ArrayLike<number> } | null
}

export type TurnWeights = {
  /** w, one per token: the truncated importance weight over the number of response tokens in the batch; 0 if masked. */
  policy: Float32Array
  /** The truncated importance weight of each token; 0 if masked. */
  importance: Float32Array
  /** o, the same for all tokens of the turn. */
  opd: number
  /** k, the same for all tokens of the turn. */
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
 * Weights w, o and k of loss.ts. A turn longer than `turnFactor` times the batch's median number of tokens has the
 * total weight of a turn of that length. Of a person's turns `weightShare` bounds the sum (person-share.ts).
 * - Policy: the mean over all response tokens of the batch, each with the importance weight min(p_old/q, tisCap). A
 *   turn whose geometric mean of p_old/q is outside [1/sequenceMask, sequenceMask] has weight 0 and still counts in
 *   the denominator.
 * - OPD: the mean over the tokens of turns with a hint, times opdWeight; with `opdOverBatch` also times the share of
 *   such turns in the batch, since a lone hinted turn of 16 would weigh 16 times what a rewarded one does. A hint is
 *   dropped unless the teacher's log-probability of the failed answer is lower than the base's by more than HINT_MARGIN: otherwise
 *   distillation would not reduce the probability of that answer. The comparison uses the sum over the answer instead
 *   of the mean per token, since a hint may concern one token in forty.
 * - KL: the mean over all response tokens, times klWeight · min(1, mean|A| / klFullAtAdvantage). Without this factor a
 *   batch of zero advantages would be an update by the KL term alone, and Adam would take full-size steps on it.
 */
export function tokenWeights(turns: readonly TurnTokens[], settings: StepSettings): TurnWeights[] {
  const dropped = turns.map(({ hint }) => hint !== null && total(hint.with) >= total(hint.without) - HINT_MARGIN)
  const scales = scalesOf(turns, settings)
  const counted = (at: number): number => (turns[at]?.old.length ?? 0) * (scales[at] ?? 1)
  const tokens = turns.reduce((sum, _, at) => sum + counted(at), 0)
  const taught = turns.flatMap((turn, at) => (turn.hint && !dropped[at] ? [at] : []))
  const hinted = taught.reduce((sum, at) => sum + counted(at), 0)
  const opdWeight = settings.opdWeight * (settings.opdOverBatch === 1 ? taught.length / turns.length : 1)
  const meanAbs = mean(turns.map((turn) => Math.abs(turn.advantage)))
  const klScale = settings.klFullAtAdvantage > 0 ? Math.min(1, meanAbs / settings.klFullAtAdvantage) : 1
  return turns.map((turn, at) => {
    const scale = scales[at] ?? 1
    const gaps = Array.from(turn.old, (old, token) => old - (turn.behaviour[token] as number))
    const masked = Math.abs(mean(gaps)) > Math.log(settings.sequenceMask)
    const truncated = gaps.map((gap) =>
      masked ? 0 : Math.min(Math.exp(Math.min(gap, MAX_LOG_RATIO)), settings.tisCap),
    )
    return {
      policy: Float32Array.from(truncated, (weight) => (weight * scale) / tokens),
      importance: Float32Array.from(truncated),
      opd: turn.hint && !dropped[at] ? (opdWeight * scale) / hinted : 0,
      kl: (settings.klWeight * klScale * scale) / tokens,
      masked,
      hintDropped: dropped[at] ?? false,
    }
  })
}

type Limits = Pick<StepSettings, 'turnFactor' | 'weightShare'>

/** Per turn: the factor of its tokens' weights. */
const scalesOf = (turns: readonly TurnTokens[], { turnFactor, weightShare }: Limits): number[] => {
  const lengths = turns.map((turn) => turn.old.length)
  const scales = turnScales(lengths, turnFactor)
  const people = personScales(weightsOf(turns, scales), turns, weightShare)
  return scales.map((scale, at) => scale * (people[at] ?? 1))
}
const weightsOf = (turns: readonly TurnTokens[], scales: readonly number[]): number[] =>
  turns.map((turn, at) => turn.old.length * (scales[at] ?? 1))

/** What `weightShare` did to a batch: figures of an update. */
export function shareFigures(
  turns: readonly TurnTokens[],
  settings: Limits,
): { cappedTurns: number; subjectWeight: number; keyWeight: number } {
  const before = turnScales(
    turns.map((turn) => turn.old.length),
    settings.turnFactor,
  )
  const scales = scalesOf(turns, settings)
  const weights = weightsOf(turns, scales)
  return {
    cappedTurns: scales.filter((scale, at) => scale < (before[at] ?? 1)).length,
    subjectWeight: largestShare(
      weights,
      turns.map(({ subject }) => subject ?? null),
    ),
    keyWeight: largestShare(
      weights,
      turns.map(({ key }) => key ?? null),
    ),
  }
}

/** Per turn of `lengths` tokens: the factor of its tokens' weights under the limit of `turnFactor` median turns. */
export function turnScales(lengths: readonly number[], turnFactor = 0): number[] {
  if (turnFactor <= 0 || lengths.length === 0) return lengths.map(() => 1)
  const sorted = lengths.toSorted((a, b) => a - b)
  const median = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0
  const most = turnFactor * median
  return lengths.map((length) => (length > most ? most / length : 1))
}
