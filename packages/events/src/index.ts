export * from './codec.ts'
export * from './errors.ts'
export * from './flow.ts'
export * from './plain-error.ts'
export * from './ids.ts'
export * from './records.ts'
export { isEpisodeRecord } from './episode-records.ts'
export * from './item-hint.ts'
export { isLoss, LOSS_NAMES, lossMode } from './loss-modes.ts'
export * from './answer-key.ts'
export * from './answer-in-text.ts'
export { lastObjectIn } from './object-in-text.ts'
export * from './folds/outcome.ts'
export * from './folds/table.ts'
export * from './folds/turns.ts'
export { scoredFacts, whyUnusable } from './folds/scored-facts.ts'
export * from './folds/scores.ts'
export { foldEpisodeBegun, isBeginMissing, type EpisodeBegins, type EpisodeBeginState } from './folds/episode-begins.ts'
export { foldEpisodeEnd, isMissing, type EpisodeEnds, type EpisodeEndState } from './folds/episode-ends.ts'
export * from './folds/updates.ts'
export { emptyChain, link } from './folds/chain.ts'
export {
  foldWeights,
  initialWeights,
  baseVersion,
  lineageDistance,
  nextVersion,
  weightLine,
  type Move,
  type VersionState,
  type WeightLine,
  type WeightsState,
  type MemoryWeightLine,
  type MemoryWeights,
  type GateVerdict,
} from './folds/weights.ts'
export { isBase, requireBase, requireBaseAdapter } from './base.ts'
export * from './references.ts'
export * from './value-digest.ts'
export { LruMap } from './lru-map.ts'
