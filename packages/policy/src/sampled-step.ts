/** Micro-batches of the loss of sampled-loss.ts for the training program, which has that of loss.ts. */
import type { StepSettings, TrainItem } from '@instar/engine/port'
import { padded } from './forward.ts'
import { joined } from './references.ts'
import { sampledLoss } from './sampled-loss.ts'
import type { TurnTokens, TurnWeights } from './token-weights.ts'
import type { MicroBatch } from './training.ts'

type LinearTurn = {
  item: Pick<TrainItem, 'prompt' | 'completion' | 'advantage'>
  tokens: TurnTokens
  weights: TurnWeights
  /** Log-probabilities [tokens] of the answer's own tokens under the base, without and with the hint. */
  own: { base: ArrayLike<number> | null; teacher: ArrayLike<number> | null }
}

export type LinearBatch = {
  batch: MicroBatch
  losses: { loss: number; policyLoss: number; opdLoss: number; klLoss: number }
  clipped: number
}

const none = (): MicroBatch['opd'] => ({ places: [], reference: joined([]), weight_R: [] })

/**
 * `now`: log-probabilities [tokens] of each turn's answer under the adapter whose gradient is taken. In the batch each
 * token has `old` = now and the advantage −gradient: at ratio 1 the clipped surrogate of loss.ts has exactly the gradient
 * of the sampled loss, as `importance_sampling` has on a Tinker server.
 */
export function linearBatch(
  turns: readonly LinearTurn[],
  now: readonly ArrayLike<number>[],
  settings: StepSettings,
): LinearBatch {
  const { policy, opd, kl, loss, clipped, gradients } = sampledLoss(
    turns.map(({ item, tokens, weights, own }, at) => ({
      advantage: item.advantage,
      weights,
      old: tokens.old,
      now: now[at] ?? [],
      ...own,
    })),
    settings,
  )
  const { ids, B, T, places } = padded(turns.map(({ item: { prompt, completion } }) => ({ prompt, completion })))
  const targets = turns.flatMap(({ item }) => [...item.completion])
  const batch: MicroBatch = {
    B,
    T,
    ids,
    rows: places,
    targets,
    inverseTemperature: targets.map(() => 1),
    old: now.flatMap((own) => Array.from(own)),
    advantage: gradients.flatMap((own) => Array.from(own, (gradient) => -gradient)),
    weight: targets.map(() => 1),
    opd: none(),
    kl: none(),
  }
  return { batch, losses: { loss, policyLoss: policy, opdLoss: opd, klLoss: kl }, clipped }
}
