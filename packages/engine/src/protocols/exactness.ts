/** Whether the tokens and log-probs that an engine reports are those that were sampled. */
import type { Sampling, TokenCounts } from '../port.ts'

/** Which sampling steps the engine's log-probs include. */
export type Logprobs = { temperature: boolean; filters: boolean }

/** vLLM raises lower temperatures to this one. */
const COLDEST = 0.01

/** The engine's log-probs for this sampling are those of the sampled distribution; greedy: of temperature 1. */
export const logprobsFit = ({ temperature, filters }: Logprobs, { temperature: t, topP, topK }: Sampling): boolean =>
  t === 0 || (t >= COLDEST && (temperature || t === 1) && (filters || (topP >= 1 && topK === 0)))

/** Sampling defaults: the model's own, less the steps that the engine's log-probs do not include. */
export const fittingDefaults = <D extends { temperature: number; topP: number; topK: number }>(
  { temperature, filters }: Logprobs,
  defaults: D,
): D => ({
  ...defaults,
  ...(temperature || defaults.temperature === 0 ? {} : { temperature: 1 }),
  ...(filters ? {} : { topP: 1, topK: 0 }),
})

type AnswerCounts = {
  ids: number
  logprobs: number
  usage: TokenCounts | null
  textWithoutIds: boolean
  fit: boolean
}

/**
 * Null: ids, log-probs and the engine's token count agree. Else why the answer's tokens are not used; it becomes the
 * turn's `reason`.
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
 * From three probes at one position: log-probs of the most likely tokens at temperature 1 and at `WARM`, where their
 * differences shrink by that factor, and the log-prob of the one token that top-k 1 leaves.
 */
export const logprobsOf = (plain: readonly number[], warm: readonly number[], only: number): Logprobs => {
  const [before, behind] = [spread(plain), spread(warm)]
  return {
    temperature:
      plain.length === warm.length && before > 1e-3 && Math.abs(behind - before / WARM) < Math.abs(behind - before),
    filters: Math.abs(only) < 1e-4,
  }
}

/** The highest temperature that vLLM and hosted APIs accept. */
export const WARM = 2

const spread = (logprobs: readonly number[]): number =>
  logprobs.length < 2 ? 0 : Math.max(...logprobs) - Math.min(...logprobs)

/** Mean difference above which two servers run different base models; other number formats differ by less. */
const SAME_BASE = 0.25

/** Log-probs by `position:id` in the check text. */
export type LogprobsByToken = ReadonlyMap<string, number>

/** Differences for the ids of `a`; an id that `b` lacks counts as the least likely one that `b` has. */
const apart = (a: LogprobsByToken, b: LogprobsByToken): number[] => {
  const least = Math.min(...b.values())
  return [...a].map(([key, value]) => Math.abs(value - (b.get(key) ?? least)))
}

export const sameBase = (a: LogprobsByToken, b: LogprobsByToken): boolean =>
  a.size === b.size && apart(a, b).reduce((sum, one) => sum + one, 0) <= SAME_BASE * Math.max(1, a.size)

/** From two measurements of the base and one of the adapter. Null: the adapter differs by more than the engine's noise. */
export const adapterFault = (base: LogprobsByToken, again: LogprobsByToken, adapted: LogprobsByToken): string | null =>
  Math.max(0, ...apart(base, adapted)) > Math.max(0, ...apart(base, again))
    ? null
    : 'its log-probs of given tokens are those of the base model'
