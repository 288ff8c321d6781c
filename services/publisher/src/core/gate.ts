/**
 * The gate: a candidate against the version that serves. Thresholds and what each one catches: docs/learning.md.
 * A single bad step shows in the KL to its parent; slow poisoning shows nowhere but in the content probe,
 * which is therefore compared with the best version ever accepted, not with the parent.
 */
export type Thresholds = {
  klParent: number
  klBase: number
  /** Content probe: at most this far below the best accepted version. */
  contentDrop: number
  /** Mean length of sampled answers in tokens, as a multiple of the parent's, and at most this many more. */
  lengthFactor: number
  lengthSlack: number
  /** Share of sampled answers that end at the limit of tokens: at most this, or this much above the parent's. */
  cutShare: number
  cutRise: number
  /** Mean length at least this multiple of the parent's, where the parent's is above `shortLength`. */
  lengthFloor: number
  /** Mean length of the parent, in tokens, from which on `lengthFloor` holds: short answers may get shorter. */
  shortLength: number
  /** Mean entropy of the sampled distributions at least this multiple of the parent's, where that is recorded. */
  entropyFloor: number
  /** Share of repeated 4-grams in sampled answers. */
  repetition: number
  /** Held-out positively scored turns: mean log-prob per token may fall by this many nats. */
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

/** Figures of one evaluation. Absent ones were not measurable (no probes, no positive turns yet). */
export type Figures = {
  finite: number
  kl_parent: number
  kl_base: number
  entropy: number
  /** Of the head, as recorded when it was measured; absent: not recorded. */
  entropy_parent?: number
  /** Share of sampled answers that end at the limit of tokens, where `length` says no more. */
  cut?: number
  cut_parent?: number
  length: number
  length_parent: number
  repetition: number
  content?: number
  positive_logprob?: number
  positive_logprob_parent?: number
}

type Ruling = { accepted: true } | { accepted: false; reason: string }

/** `best`: the highest content figure of an accepted version or the base; null without probes. */
export const rule = (figures: Figures, best: number | null, limits: Thresholds): Ruling => {
  const no = (reason: string): Ruling => ({ accepted: false, reason })
  if (figures.finite !== 1 || !Object.values(figures).every((value) => Number.isFinite(value))) return no('not_finite')
  if (figures.kl_parent > limits.klParent) return no('kl_parent')
  if (figures.kl_base > limits.klBase) return no('kl_base')
  if (figures.content !== undefined && best !== null && figures.content < best - limits.contentDrop)
    return no('content')
  if (figures.length > limits.lengthFactor * figures.length_parent + limits.lengthSlack) return no('length')
  if (figures.cut !== undefined && figures.cut > Math.max(limits.cutShare, (figures.cut_parent ?? 0) + limits.cutRise))
    return no('length')
  if (figures.length_parent >= limits.shortLength && figures.length < limits.lengthFloor * figures.length_parent)
    return no('length_low')
  if (figures.entropy_parent !== undefined && figures.entropy < limits.entropyFloor * figures.entropy_parent)
    return no('entropy_low')
  if (figures.repetition > limits.repetition) return no('repetition')
  if (
    figures.positive_logprob !== undefined &&
    figures.positive_logprob_parent !== undefined &&
    figures.positive_logprob < figures.positive_logprob_parent - limits.positiveDrop
  )
    return no('positive_turns')
  return { accepted: true }
}
