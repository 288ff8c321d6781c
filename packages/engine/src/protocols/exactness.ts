/** Whether the tokens and log-probs that an engine reports are those that were sampled. */
import type { GenerateRequest, Sampling, TokenCounts } from '../port.ts'

/** The sampling steps that the engine's log-probs include. `filters`: top-p and top-k. */
export type LogprobSteps = { temperature: boolean; filters: boolean }

/** vLLM replaces a lower temperature above 0 by this one. */
const MIN_TEMPERATURE = 0.01

/**
 * Whether the engine's log-probs for these settings are those of the sampled distribution, or of temperature 1 for
 * greedy sampling.
 */
export const logprobsAreExact = (
  { temperature, filters }: LogprobSteps,
  { temperature: t, topP, topK }: Sampling,
): boolean => t === 0 || (t >= MIN_TEMPERATURE && (temperature || t === 1) && (filters || (topP >= 1 && topK === 0)))

/** The model's sampling defaults without the steps that the engine's log-probs do not include. */
export const exactDefaults = <D extends { temperature: number; topP: number; topK: number }>(
  { temperature, filters }: LogprobSteps,
  defaults: D,
): D => ({
  ...defaults,
  ...(temperature || defaults.temperature === 0 ? {} : { temperature: 1 }),
  ...(filters ? {} : { topP: 1, topK: 0 }),
})

/** Rounding can give a log-prob slightly above 0. */
const LOGPROB_MAX = 1e-3
/** No sampler draws a token of this probability; engines write −9999 for a probability of zero. */
const LOGPROB_MIN = -1000
/**
 * The same where the answer is free (`isFree`): of V tokens one below −x is drawn with a probability of at most V·e^(−x),
 * 3e-23 for 150,000 tokens.
 */
const FREE_LOGPROB_MIN = -64
/** Tokens of a free answer that are not all certain: at temperature 0.7 one is with two tokens 12 nats apart. */
const FREE_TOKENS = 64
const FREE_TEMPERATURE = 0.7

/** Neither a grammar nor a bias forces tokens, so that log-probs are those of the model's own distribution. */
export const isFree = ({ constraint, reweighting }: Pick<GenerateRequest, 'constraint' | 'reweighting'>): boolean =>
  constraint === undefined && reweighting === undefined

/**
 * Whether the log-probs of an answer cannot be all 0, as of an engine that computes none. Greedy sampling, low
 * temperatures and filters leave single tokens with certainty. `zeros`: tokens whose log-prob is exactly 0.
 */
export const allCertain = (
  request: Pick<GenerateRequest, 'constraint' | 'reweighting' | 'sampling'>,
  { ids, zeros }: { ids: number; zeros: number },
): boolean => {
  const { temperature, topP, topK } = request.sampling
  return (
    isFree(request) && temperature >= FREE_TEMPERATURE && topP >= 1 && topK === 0 && zeros === ids && ids >= FREE_TOKENS
  )
}

/**
 * The reason why a reported token cannot be one that was sampled; null if it can. `at`: its position in the answer.
 * `limit`: the number of tokens that were asked for. `free`: see `isFree`. `logprob` NaN: not reported, which
 * `inexactness` counts.
 */
export const tokenFault = (
  { id, logprob }: { id: number; logprob: number },
  at: number,
  { vocabulary, limit, free }: { vocabulary: number; limit: number; free: boolean },
): 'bad_ids' | 'bad_logprobs' | 'too_many_ids' | null =>
  !Number.isInteger(id) || id < 0 || id >= vocabulary
    ? 'bad_ids'
    : logprob > LOGPROB_MAX || logprob < (free ? FREE_LOGPROB_MIN : LOGPROB_MIN)
      ? 'bad_logprobs'
      : at >= limit
        ? 'too_many_ids'
        : null

type AnswerCounts = {
  /** The first result of `tokenFault` that is not null. */
  fault?: string | null
  ids: number
  logprobs: number
  usage: TokenCounts | null
  textWithoutIds: boolean
  /** The result of `logprobsAreExact`. */
  exactLogprobs: boolean
}

/**
 * Null if the numbers of ids and log-probs and the engine's token count are equal and the log-probs are exact. Else the
 * reason why the answer's tokens are not used; it is recorded as the turn's `reason`.
 */
export const inexactness = ({
  fault = null,
  ids,
  logprobs,
  usage,
  textWithoutIds,
  exactLogprobs,
}: AnswerCounts): string | null =>
  fault ??
  (textWithoutIds || ids === 0
    ? 'no_ids'
    : logprobs !== ids
      ? 'no_logprobs'
      : usage === null
        ? 'no_token_count'
        : usage.completionTokens !== ids
          ? 'token_count_differs'
          : exactLogprobs
            ? null
            : 'other_logprobs')

/**
 * From three probes at one position. `unscaled` and `scaled`: log-probs of the most likely tokens at temperature 1 and
 * at PROBE_TEMPERATURE; log-probs that include the temperature have differences smaller by that factor. `top1`:
 * log-prob of the token sampled with top-k 1; 0 if it includes the filters.
 */
export const includedSteps = (unscaled: readonly number[], scaled: readonly number[], top1: number): LogprobSteps => {
  const [range, scaledRange] = [rangeOf(unscaled), rangeOf(scaled)]
  return {
    temperature:
      unscaled.length === scaled.length &&
      range > 1e-3 &&
      Math.abs(scaledRange - range / PROBE_TEMPERATURE) < Math.abs(scaledRange - range),
    filters: Math.abs(top1) < 1e-4,
  }
}

/** The highest temperature that vLLM and hosted APIs accept. */
export const PROBE_TEMPERATURE = 2

const rangeOf = (logprobs: readonly number[]): number =>
  logprobs.length < 2 ? 0 : Math.max(...logprobs) - Math.min(...logprobs)

/**
 * Mean difference in nats above which two servers run different base models. Number formats of one model differ by
 * less.
 */
const MAX_MEAN_DIFFERENCE = 0.25

/** Log-probs by `position:id` in the probe text. */
export type LogprobsByToken = ReadonlyMap<string, number>

/** Absolute differences for the ids of `a`. For an id that `b` lacks, the minimum of `b` is used. */
const differences = (a: LogprobsByToken, b: LogprobsByToken): number[] => {
  const min = Math.min(...b.values())
  return [...a].map(([key, value]) => Math.abs(value - (b.get(key) ?? min)))
}

export const sameBase = (a: LogprobsByToken, b: LogprobsByToken): boolean =>
  a.size === b.size && differences(a, b).reduce((sum, one) => sum + one, 0) <= MAX_MEAN_DIFFERENCE * Math.max(1, a.size)

/**
 * Compares the log-probs under an adapter with two measurements of the base model. Null if the adapter differs from the
 * base by more than the measurements differ from each other; else the reason to refuse it.
 */
export const adapterFault = (base: LogprobsByToken, again: LogprobsByToken, adapted: LogprobsByToken): string | null =>
  Math.max(0, ...differences(base, adapted)) > Math.max(0, ...differences(base, again))
    ? null
    : 'its log-probs of given tokens are those of the base model'
