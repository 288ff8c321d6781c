/** Whether what an engine said of an answer's tokens is what was sampled. */
import type { Sampling, TokenCounts } from '../port.ts'

/** Which steps of sampling the engine's log-probs are behind. */
export type Logprobs = { temperature: boolean; filters: boolean }

/** vLLM draws at this temperature where less is asked for. */
const COLDEST = 0.01

/** The engine's log-probs for this sampling are those of the distribution that was drawn from; greedy: those of temperature 1. */
export const logprobsFit = ({ temperature, filters }: Logprobs, { temperature: t, topP, topK }: Sampling): boolean =>
  t === 0 || (t >= COLDEST && (temperature || t === 1) && (filters || (topP >= 1 && topK === 0)))

/** What is sampled with where the client says nothing: of the model's own defaults what the engine's log-probs are behind. */
export const fittingDefaults = <D extends { temperature: number; topP: number; topK: number }>(
  { temperature, filters }: Logprobs,
  defaults: D,
): D => ({
  ...defaults,
  ...(temperature || defaults.temperature === 0 ? {} : { temperature: 1 }),
  ...(filters ? {} : { topP: 1, topK: 0 }),
})

export type AnswerCounts = {
  ids: number
  logprobs: number
  usage: TokenCounts | null
  textWithoutIds: boolean
  fit: boolean
}

/**
 * Null: ids, log-probs and the engine's count of tokens agree. Else why the answer's tokens are not used, as the
 * turn's `reason` says it.
 */
export const inexactness = ({ ids, logprobs, usage, textWithoutIds, fit }: AnswerCounts): string | null =>
  textWithoutIds || ids === 0
    ? 'no_ids'
    : logprobs !== ids
      ? 'no_logprobs'
      : usage === null
        ? 'no_token_count'
        : usage.completionTokens !== ids
          ? 'token_count_differs'
          : fit
            ? null
            : 'other_logprobs'

/**
 * From three probes of the same place: the most likely tokens' log-probs at temperature 1 and at `WARM`, where the
 * differences between them are divided by it, and the log-prob of the one token that top-k 1 leaves.
 */
export const logprobsOf = (plain: readonly number[], warm: readonly number[], only: number): Logprobs => {
  const [before, behind] = [spread(plain), spread(warm)]
  return {
    temperature:
      plain.length === warm.length && before > 1e-3 && Math.abs(behind - before / WARM) < Math.abs(behind - before),
    filters: Math.abs(only) < 1e-4,
  }
}

/** vLLM and the hosted APIs take no higher temperature. */
export const WARM = 2

const spread = (logprobs: readonly number[]): number =>
  logprobs.length < 2 ? 0 : Math.max(...logprobs) - Math.min(...logprobs)

/** Beyond this mean difference two servers do not run the same base model; other number formats differ by less. */
const SAME_BASE = 0.25

/** Log-probs by the place in the check text and the id there. */
export type LogprobsByToken = ReadonlyMap<string, number>

/** Of what `a` tells; an id that `b` does not tell is at most as likely there as the least likely that it tells. */
const apart = (a: LogprobsByToken, b: LogprobsByToken): number[] => {
  const least = Math.min(...b.values())
  return [...a].map(([key, value]) => Math.abs(value - (b.get(key) ?? least)))
}

export const sameBase = (a: LogprobsByToken, b: LogprobsByToken): boolean =>
  a.size === b.size && apart(a, b).reduce((sum, one) => sum + one, 0) <= SAME_BASE * Math.max(1, a.size)

/** The base's log-probs twice, and the adapter's. Null: they differ by more than the engine's own noise. */
export const adapterFault = (base: LogprobsByToken, again: LogprobsByToken, adapted: LogprobsByToken): string | null =>
  Math.max(0, ...apart(base, adapted)) > Math.max(0, ...apart(base, again))
    ? null
    : 'its log-probs of given tokens are those of the base model'
