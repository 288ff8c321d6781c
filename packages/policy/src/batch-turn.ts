/** A turn of a batch while its update is computed. */
import type { TrainItem } from '@instar/engine/port'
import type { KnownReferences } from './divergence.ts'
import type { Reference } from './references.ts'
import type { TurnTokens, TurnWeights } from './token-weights.ts'

/**
 * A turn of the batch with the results of the forward passes before the first gradient. `base`, `teacher`: the references
 * of its completion; null: recomputed for each micro-batch. `measured`: log-probabilities [tokens, V] of the tokens on
 * which the step's divergence is measured.
 */
export type BatchTurn = {
  item: TrainItem
  /** Under `sampledTokens`: log-probabilities of the answer's own tokens under the base, without and with the hint. */
  own: { base: Float32Array | null; teacher: Float32Array | null }
  tokens: TurnTokens
  weights: TurnWeights
  measured: KnownReferences
  base: Reference | null
  teacher: Reference | null
}
