/**
 * The gate: compares a candidate with the serving version. docs/learning.md describes each threshold. A single bad step
 * raises the KL to its parent. A slow decline over many versions is visible only in the content probe, which is therefore
 * compared with the best accepted version instead of the parent.
 */
export type Thresholds = {
  /** Maximum mean KL to the parent and to the base, in nats per token of sampled answers. */
  klParent: number
  klBase: number
  /** Maximum drop of the content figure (a share, 0…1) below the best accepted version. */
  contentDrop: number
  /** Maximum mean length of sampled answers, in tokens: `lengthFactor` times the parent's plus `lengthSlack`. */
  lengthFactor: number
  lengthSlack: number
  /** Maximum share of sampled answers cut at the token limit: `cutShare`, or the parent's share plus `cutRise`. */
  cutShare: number
  cutRise: number
  /** Minimum mean length as a multiple of the parent's, if the parent's is at least `shortLength` tokens. */
  lengthFloor: number
  shortLength: number
  /** Minimum mean entropy of the sampled distributions as a multiple of the parent's, if that is recorded. */
  entropyFloor: number
  /** Maximum share of repeated 4-grams in sampled answers. */
  repetition: number
  /** Maximum drop of the mean log-probability per token on held-out turns with a positive score, in nats. */
  positiveDrop: number
}

export const THRESHOLDS: Thresholds = {
  klParent: 0.03,
  klBase: 0.25,
  contentDrop: 0.04,
  lengthFactor: 2,
  lengthSlack: 16,
  cutShare: 0.5,
  cutRise: 0.25,
  lengthFloor: 0.1,
  shortLength: 16,
  entropyFloor: 0.1,
  repetition: 0.5,
  positiveDrop: 0.5,
}

/** Figures of one evaluation, in the units of `Thresholds`; absent if not measurable (no probes, no positive turns). */
export type Figures = {
  /** 1 if all figures are finite, otherwise 0. */
  finite: number
  kl_parent: number
  kl_base: number
  entropy: number
  /** As recorded when the head was measured. */
  entropy_parent?: number
  /** Share of sampled answers cut at the token limit, which `length` does not show. */
  cut?: number
  cut_parent?: number
  length: number
  length_parent: number
  repetition: number
  content?: number
  positive_logprob?: number
  positive_logprob_parent?: number
}

type GateResult = { accepted: true } | { accepted: false; reason: string }

/** `best`: the highest content figure of the base and of the accepted versions; null without probes. */
export const checkCandidate = (figures: Figures, best: number | null, limits: Thresholds): GateResult => {
  const rejected = (reason: string): GateResult => ({ accepted: false, reason })
  if (figures.finite !== 1 || !Object.values(figures).every((value) => Number.isFinite(value)))
    return rejected('not_finite')
  if (figures.kl_parent > limits.klParent) return rejected('kl_parent')
  if (figures.kl_base > limits.klBase) return rejected('kl_base')
  if (figures.content !== undefined && best !== null && figures.content < best - limits.contentDrop)
    return rejected('content')
  if (figures.length > limits.lengthFactor * figures.length_parent + limits.lengthSlack) return rejected('length')
  if (figures.cut !== undefined && figures.cut > Math.max(limits.cutShare, (figures.cut_parent ?? 0) + limits.cutRise))
    return rejected('length')
  if (figures.length_parent >= limits.shortLength && figures.length < limits.lengthFloor * figures.length_parent)
    return rejected('length_low')
  if (figures.entropy_parent !== undefined && figures.entropy < limits.entropyFloor * figures.entropy_parent)
    return rejected('entropy_low')
  if (figures.repetition > limits.repetition) return rejected('repetition')
  if (
    figures.positive_logprob !== undefined &&
    figures.positive_logprob_parent !== undefined &&
    figures.positive_logprob < figures.positive_logprob_parent - limits.positiveDrop
  )
    return rejected('positive_turns')
  return { accepted: true }
}
