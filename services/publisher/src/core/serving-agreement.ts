/**
 * Whether the servers answer with the adapter that was trained: log-probs of the same tokens by the trainer and by each
 * server, under the candidate and under the base. The base shows what the number formats differ by, so that one rule holds
 * for float32 and for half precision; a candidate beyond it is another adapter, another scale, or none.
 */
import type { Settings } from '@instar/events'

/** Nats. What float32 on both sides differs by at most: 2e-5 was seen with vLLM and SkyRL. */
const FLOAT32 = 1e-4
/** How much more the candidate may differ than the base. */
const MAX_FACTOR = 4
const MEAN_FACTOR = 2
/** The largest difference of a base that is the same model in half precision. */
const LARGEST = 0.2

/** Log-probs of one row of tokens: by the trainer, and by one server. */
export type Pair = { trainer: ArrayLike<number>; server: ArrayLike<number> }

const differences = (pairs: readonly Pair[]): number[] =>
  pairs.flatMap(({ trainer, server }) =>
    Array.from({ length: trainer.length }, (_, at) => Math.abs(trainer[at]! - (server[at] ?? Number.NaN))),
  )

/** NaN if one is. */
const largest = (values: readonly number[]): number => values.reduce((most, one) => Math.max(most, one), 0)
const mean = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, one) => sum + one, 0) / values.length

/** Of one server. `base` empty: the trainer's log-probs under the base are not known. */
export type ServerPairs = { candidate: readonly Pair[]; base: readonly Pair[] }

/** Differences of one server, nats: the largest one under candidate and base, and the means. */
export const differencesOf = ({ candidate, base }: ServerPairs) => {
  const [own, ofBase] = [differences(candidate), differences(base)]
  return {
    largest: largest([...own, ...ofBase]),
    mean: mean(own),
    base: ofBase.length === 0 ? null : { largest: largest(ofBase), mean: mean(ofBase) },
    tokens: own.length,
  }
}

/**
 * The figures of a verdict: the largest and the mean difference of the server that differs most, nats, and their limits,
 * which are `tolerance`, else calibrated on the base of the server that differs least; and the tokens that were compared.
 */
export const servingFigures = (servers: readonly ServerPairs[], tolerance: number | null): Settings => {
  const found = servers.map(differencesOf)
  const bases = found.flatMap(({ base }) => base ?? [])
  const base = {
    largest: Math.min(...bases.map((one) => one.largest)),
    mean: Math.min(...bases.map((one) => one.mean)),
  }
  const calibrated = (value: number): number =>
    tolerance ?? (bases.length === 0 ? LARGEST : Math.min(LARGEST, Math.max(FLOAT32, value)))
  return {
    serving_difference: largest(found.map((one) => one.largest)),
    serving_limit: calibrated(MAX_FACTOR * base.largest),
    serving_mean: largest(found.map((one) => one.mean)),
    serving_mean_limit: calibrated(MEAN_FACTOR * base.mean),
    ...(bases.length === 0 ? {} : { serving_base: base.largest, serving_base_mean: base.mean }),
    serving_tokens: found.reduce((sum, { tokens }) => sum + tokens, 0),
    serving_replicas: servers.length,
  }
}
