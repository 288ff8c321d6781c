/**
 * The gate: compares a candidate with the serving version. docs/learning.md describes each threshold. A single bad step
 * raises the KL to its parent. A slow decline over many versions is visible only against a fixed point: the probes are
 * those that the base answers correctly, and length and entropy on the fixed prompts have the base's as their floor.
 */
export type Thresholds = {
  /**
   * Maximum mean KL to the parent and to the base, in nats per token of sampled answers; also on the fixed prompts
   * alone.
   */
  klParent: number
  klBase: number
  /**
   * Maximum drop of the content figure (a share, 0…1) below the best accepted version. For lines of earlier builds,
   * whose probes are not those that the base answered; for others core/falls.ts gives the limit.
   */
  contentDrop: number
  /** Maximum mean length of sampled answers, in tokens: `lengthFactor` times the parent's plus `lengthSlack`. */
  lengthFactor: number
  lengthSlack: number
  /** Maximum share of sampled answers cut at the token limit: `cutShare`, the base's share, or the parent's plus `cutRise`. */
  cutShare: number
  cutRise: number
  /** Minimum mean length as a multiple of the parent's, if the parent's is at least `shortLength` tokens. */
  lengthFloor: number
  shortLength: number
  /** Minimum mean entropy of the sampled distributions as a multiple of the parent's, if that is recorded. */
  entropyFloor: number
  /** Minimum length and entropy on the fixed prompts, as a multiple of the base's. */
  lengthFloorBase: number
  entropyFloorBase: number
  /**
   * Mean length on the fixed prompts without a wish for it: at most `lengthRise` times the longest that was asked for
   * plus `lengthRiseSlack` tokens, at least `lengthFall` times the shortest. `lengthAsked`: from which share of turns with
   * such wishes on, as a running mean over the versions, a length counts as asked for.
   */
  lengthRise: number
  lengthRiseSlack: number
  lengthFall: number
  lengthAsked: number
  /** Maximum share of repeated 4-grams in sampled answers. */
  repetition: number
  /** Maximum drop of the mean log-probability per token on held-out turns with a positive score, in nats. */
  positiveDrop: number
}

/** Of models up to 10 million parameters; larger ones: packages/process/src/learning/defaults-by-size.ts. */
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
  lengthFloorBase: 0.05,
  entropyFloorBase: 0.05,
  lengthRise: 2,
  lengthRiseSlack: 8,
  lengthFall: 0.33,
  lengthAsked: 0.02,
  repetition: 0.5,
  positiveDrop: 0.5,
}

/** Figures of one evaluation, in the units of `Thresholds`; absent if not measurable (no probes, no positive turns). */
export type Figures = {
  /** 1 if all figures are finite, otherwise 0. */
  finite: number
  /**
   * Over all sampled answers; `_fixed`: over those to the fixed prompts; `_base`, `_parent`: of the base, of the head.
   */
  kl_parent: number
  kl_base: number
  kl_parent_fixed?: number
  kl_base_fixed?: number
  entropy: number
  /** As recorded when the head was measured. */
  entropy_parent?: number
  entropy_fixed?: number
  entropy_fixed_base?: number
  /** Share of sampled answers cut at the token limit, which `length` does not show. */
  cut?: number
  cut_parent?: number
  /** On the fixed prompts. */
  cut_base?: number
  length: number
  length_parent: number
  length_fixed?: number
  length_fixed_base?: number
  /**
   * Wishes for longer answers less those for shorter ones, a running share of turns; the shortest and the longest
   * `length_fixed` that was asked for (core/asked-length.ts).
   */
  length_asked?: number
  length_least?: number
  length_most?: number
  repetition: number
  repetition_fixed?: number
  /** Share of correct greedy answers to the probes, how many of them fell, and how many must fall for a rejection. */
  content?: number
  falls?: number
  falls_limit?: number
  positive_logprob?: number
  positive_logprob_parent?: number
  /** Of a gate that measures through the serving engine (core/serving-agreement.ts), nats. */
  serving_difference?: number
  serving_limit?: number
  serving_mean?: number
  serving_mean_limit?: number
  /**
   * KL is an estimate (packages/engine/src/remote/kl-estimate.ts): how many of the likeliest tokens are summed, and the
   * standard errors. Absent: the sum over the vocabulary.
   */
  kl_top?: number
  kl_parent_error?: number
  kl_base_error?: number
  /** Tokens generated for these figures. */
  tokens?: number
}

type GateResult = { accepted: true } | { accepted: false; reason: string }

/** `value` is present and beyond `limit`, which is present too. */
const above = (value: number | undefined, limit: number | undefined): boolean =>
  value !== undefined && limit !== undefined && value > limit
const below = (value: number | undefined, limit: number | undefined): boolean =>
  value !== undefined && limit !== undefined && value < limit
const times = (factor: number, value: number | undefined): number | undefined =>
  value === undefined ? undefined : factor * value

/** `best`: the highest content figure of the base and of the accepted versions; null without probes. */
export const checkCandidate = (figures: Figures, best: number | null, limits: Thresholds): GateResult => {
  const rejected = (reason: string): GateResult => ({ accepted: false, reason })
  if (figures.finite !== 1 || !Object.values(figures).every((value) => Number.isFinite(value)))
    return rejected('not_finite')
  if (
    above(figures.serving_difference, figures.serving_limit) ||
    above(figures.serving_mean, figures.serving_mean_limit)
  )
    return rejected('serving_differs')
  if (above(figures.kl_parent, limits.klParent)) return rejected('kl_parent')
  if (above(figures.kl_base, limits.klBase)) return rejected('kl_base')
  if (above(figures.kl_parent_fixed, limits.klParent)) return rejected('kl_parent_fixed')
  if (above(figures.kl_base_fixed, limits.klBase)) return rejected('kl_base_fixed')
  if (contentLost(figures, best, limits)) return rejected('content')
  if (figures.length > limits.lengthFactor * figures.length_parent + limits.lengthSlack) return rejected('length')
  if (above(figures.cut, Math.max(limits.cutShare, figures.cut_base ?? 0, (figures.cut_parent ?? 0) + limits.cutRise)))
    return rejected('length')
  if (figures.length_parent >= limits.shortLength && figures.length < limits.lengthFloor * figures.length_parent)
    return rejected('length_low')
  if (below(figures.length_fixed, times(limits.lengthFloorBase, figures.length_fixed_base)))
    return rejected('length_low')
  if (above(figures.length_fixed, plus(times(limits.lengthRise, figures.length_most), limits.lengthRiseSlack)))
    return rejected('length_rise')
  if (below(figures.length_fixed, times(limits.lengthFall, figures.length_least))) return rejected('length_fall')
  if (below(figures.entropy, times(limits.entropyFloor, figures.entropy_parent))) return rejected('entropy_low')
  if (below(figures.entropy_fixed, times(limits.entropyFloorBase, figures.entropy_fixed_base)))
    return rejected('entropy_low')
  if (figures.repetition > limits.repetition || above(figures.repetition_fixed, limits.repetition))
    return rejected('repetition')
  if (below(figures.positive_logprob, minus(figures.positive_logprob_parent, limits.positiveDrop)))
    return rejected('positive_turns')
  return { accepted: true }
}

const plus = (value: number | undefined, more: number): number | undefined =>
  value === undefined ? undefined : value + more
const minus = (value: number | undefined, drop: number): number | undefined => plus(value, -drop)

const contentLost = (
  { content, falls, falls_limit: limit }: Figures,
  best: number | null,
  { contentDrop }: Thresholds,
): boolean =>
  limit === undefined
    ? content !== undefined && best !== null && content < best - contentDrop
    : falls !== undefined && falls >= limit
