/**
 * What an update computes from log-probabilities alone, on plain numbers: the gradient by each of them, and its figures.
 * For a trainer whose forward and backward passes run on a Tinker server; the embedded one is step.ts.
 */
import type { StepFigures, StepSettings, TrainItem } from '@instar/engine/port'
import { isUntempered, sampledDivergences, sampledLoss } from './sampled-loss.ts'
import { shareFigures, tokenWeights, type TurnTokens } from './token-weights.ts'

/** Log-probabilities [tokens] of an answer at temperature 1; `base`, `teacher`: null where they are not used. */
export type AnswerLogprobs = {
  /** Of the parent. */
  old: ArrayLike<number>
  now: ArrayLike<number>
  /** Of the base model, without and with the hint in the prompt. */
  base: ArrayLike<number> | null
  teacher: ArrayLike<number> | null
}

export type SampledUpdate = {
  /** d loss / d lp by item, [tokens] each. */
  gradients: Float64Array[]
  /** Without `gradNorm` and `steps`, which are the server's. */
  figures: Omit<StepFigures, 'gradNorm' | 'steps'>
  /** Whether an item has an advantage, or a hint that is not dropped. Without one no step is taken. */
  hasSignal: boolean
}

const mean = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length

export const sampledUpdate = (
  items: readonly TrainItem[],
  logprobs: readonly AnswerLogprobs[],
  settings: StepSettings,
): SampledUpdate => {
  const turns = items.map((item, at) => {
    const own = logprobs[at]
    if (!own) throw new Error(`item ${at} has no log-probabilities`)
    const tokens: TurnTokens = {
      advantage: item.advantage,
      behaviour: isUntempered(item.temperature) ? item.behaviourLogprobs : own.old,
      old: own.old,
      hint: own.teacher && own.base ? { without: own.base, with: own.teacher } : null,
      subject: item.subject ?? null,
      key: item.key ?? null,
    }
    return { item, own, tokens }
  })
  const tokens = turns.map((turn) => turn.tokens)
  const weights = tokenWeights(tokens, settings)
  const sampled = turns.map(({ item, own }, at) => ({
    ...own,
    advantage: item.advantage,
    weights: weights[at] ?? { policy: [] as never, importance: [] as never, opd: 0, kl: 0 },
  }))
  const { policy, opd, kl, loss, clipped, gradients } = sampledLoss(sampled, settings)
  const divergences = sampledDivergences(sampled)
  const count = tokens.reduce((sum, { old }) => sum + old.length, 0)
  return {
    gradients,
    hasSignal: turns.some(({ item }, at) => item.advantage !== 0 || (weights[at]?.opd ?? 0) > 0),
    figures: {
      loss,
      policyLoss: policy,
      opdLoss: opd,
      klLoss: kl,
      meanAdvantage: mean(items.map(({ advantage }) => advantage)),
      meanAbsAdvantage: mean(items.map(({ advantage }) => Math.abs(advantage))),
      clipFraction: count === 0 ? 0 : clipped / count,
      maskedTurns: weights.filter(({ masked }) => masked).length,
      behaviourGap: mean(
        tokens.flatMap(({ old, behaviour }) => Array.from(old, (lp, at) => Math.abs(lp - (behaviour[at] as number)))),
      ),
      tokens: count,
      droppedHints: weights.filter(({ hintDropped }) => hintDropped).length,
      temperedTurns: items.filter(({ temperature }) => !isUntempered(temperature)).length,
      ...(settings.weightShare === undefined ? {} : shareFigures(tokens, settings)),
      klParent: divergences.parent,
      ...(Number.isFinite(divergences.base) ? { klBase: divergences.base } : {}),
    },
  }
}
