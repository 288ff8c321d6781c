/** How much is asked of the gateway and how fast it answers, from its own metrics since its start. */
import type { MetricValues } from '@instar/process'

/** Quantiles of a histogram in seconds; null without observations. */
type Times = { count: number; p50: number | null; p99: number | null }
export type Traffic = {
  requests: number
  /** Tokens of prompts and of answers. */
  prompt_tokens: number
  tokens: number
  first_token: Times
  duration: Times
  /** Mean time between two tokens of an answer, in seconds; null without answers. */
  per_token: number | null
}

type Sample = { value: number; labels: Partial<Record<string, string | number>>; metricName?: string }

const samples = (metrics: MetricValues, name: string): Sample[] =>
  (metrics.find((metric) => metric.name === name)?.values ?? []) as Sample[]

const total = (all: readonly Sample[]): number => all.reduce((sum, { value }) => sum + value, 0)

const ending = (all: readonly Sample[], name: string, part: string): Sample[] =>
  all.filter(({ metricName }) => metricName === `${name}_${part}`)

/**
 * The value below which a share `q` of the observations lies, with equal density within a bucket, as Prometheus's
 * histogram_quantile. `buckets`: upper ends, ascending, with the number of observations up to each; the last is infinite,
 * and what lies in it counts as the end of the one before. Null without observations.
 */
export const quantile = (buckets: readonly (readonly [end: number, count: number])[], q: number): number | null => {
  const all = buckets.at(-1)?.[1] ?? 0
  if (all === 0) return null
  const rank = q * all
  const i = buckets.findIndex(([, count]) => count >= rank)
  const [end, count] = buckets[i]!
  const [begin, before] = i === 0 ? [0, 0] : buckets[i - 1]!
  if (end === Infinity) return begin
  return count === before ? end : begin + ((end - begin) * (rank - before)) / (count - before)
}

const timesOf = (metrics: MetricValues, name: string): Times => {
  const ends = new Map<number, number>()
  for (const { labels, value } of ending(samples(metrics, name), name, 'bucket')) {
    const end = labels['le'] === '+Inf' ? Infinity : Number(labels['le'])
    ends.set(end, (ends.get(end) ?? 0) + value)
  }
  const buckets = [...ends].toSorted(([a], [b]) => a - b)
  return { count: buckets.at(-1)?.[1] ?? 0, p50: quantile(buckets, 0.5), p99: quantile(buckets, 0.99) }
}

export const trafficOf = (metrics: MetricValues): Traffic => {
  const name = 'instar_time_per_output_token_seconds'
  const each = samples(metrics, name)
  const answers = total(ending(each, name, 'count'))
  const duration = timesOf(metrics, 'instar_request_duration_seconds')
  return {
    requests: duration.count,
    prompt_tokens: total(samples(metrics, 'instar_prompt_tokens_total')),
    tokens: total(samples(metrics, 'instar_generation_tokens_total')),
    first_token: timesOf(metrics, 'instar_time_to_first_token_seconds'),
    duration,
    per_token: answers === 0 ? null : total(ending(each, name, 'sum')) / answers,
  }
}
