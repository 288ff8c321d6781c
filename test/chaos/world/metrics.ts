/**
 * `version_metrics`, computed from the log's records in plain TypeScript, for comparison with the view of PostgreSQL.
 */
import type { History } from './history.ts'

export type Metrics = Record<string, number | string | null>

const mean = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length

/** The sample standard deviation (n − 1); null below two values. */
const deviation = (values: readonly number[]): number | null => {
  const centre = mean(values)
  if (centre === null || values.length < 2) return null
  return Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1))
}

/** Linear interpolation between the two nearest ranks. */
const percentile = (values: readonly number[], p: number): number | null => {
  if (values.length === 0) return null
  const sorted = values.toSorted((a, b) => a - b)
  const at = p * (sorted.length - 1)
  const low = sorted[Math.floor(at)]!
  return low + (sorted[Math.ceil(at)]! - low) * (at - Math.floor(at))
}

export const metricsOf = (history: History): Metrics[] => {
  const turns = [...history.turns.values()].map(({ event }) => event)
  const moves = history
    .verdicts()
    .flatMap(({ event }) => (event.type === 'VersionPublished' ? [{ to: event.number, at: event.at }] : []))
  const reigns = [{ to: 0, at: history.line!.event.at }, ...moves].map((move, i, all) => ({
    ...move,
    until: all[i + 1]?.at ?? null,
  }))
  return history.versions.map(({ number, parent, fact }): Metrics => {
    const served = turns.filter(({ version }) => version === number)
    const inForce = [...history.scores.values()]
      .map((facts) => facts.at(-1)!.event)
      .filter(({ version }) => version === number)
    const rewards = inForce.flatMap((event) => (event.type === 'TurnSkipped' ? [] : [event.reward]))
    const reward = mean(rewards)
    const spread = deviation(rewards)
    const margin = spread === null ? null : (1.96 * spread) / Math.sqrt(rewards.length)
    const batch = fact && history.batches.find(({ outcome }) => outcome?.id === fact.event.update)
    const outcome = batch?.outcome?.event
    const figures = outcome?.type === 'UpdateComputed' ? outcome.figures : null
    const gate: Record<string, number> = fact?.event.figures ?? {}
    const reign = reigns.filter(({ to }) => to === number)
    const serves = reign.some(({ until }) => until === null)
    const latency = served.map(({ at, finishedAt }) => finishedAt - at)
    const first = served.map(({ at, firstTokenAt }) => firstTokenAt - at)
    return {
      version: number,
      parent,
      sha256: fact?.event.adapter ?? null,
      status: number === history.head ? 'serving' : history.distance(number) < Infinity ? 'superseded' : 'rolled_back',
      why: fact?.event.why ?? 'base',
      published_at: new Date(fact?.event.at ?? history.line!.event.at).toISOString(),
      turns: served.filter(({ kind }) => kind === 'main').length,
      side_turns: served.filter(({ kind }) => kind === 'side').length,
      aborted: served.filter(({ type }) => type === 'TurnAborted').length,
      sessions: new Set(served.map(({ session }) => session)).size,
      scored: rewards.length,
      skipped: inForce.length - rewards.length,
      feedback: inForce.filter(({ rank }) => rank !== null).length,
      reward,
      reward_low: margin === null ? null : reward! - margin,
      reward_high: margin === null ? null : reward! + margin,
      trained_turns: batch?.event.items.length ?? null,
      trained_reward: batch ? mean(batch.event.items.map((item) => item.reward)) : null,
      kl_parent: gate['kl_parent'] ?? null,
      kl_base: gate['kl_base'] ?? null,
      content: gate['content'] ?? null,
      entropy: gate['entropy'] ?? null,
      sampled_length: gate['length'] ?? null,
      repetition: gate['repetition'] ?? null,
      loss: figures?.['loss'] ?? null,
      policy_loss: figures?.['policyLoss'] ?? null,
      opd_loss: figures?.['opdLoss'] ?? null,
      kl_loss: figures?.['klLoss'] ?? null,
      grad_norm: figures?.['gradNorm'] ?? null,
      forward_prompt_tokens: figures?.['forwardPromptTokens'] ?? null,
      forward_response_tokens: figures?.['forwardResponseTokens'] ?? null,
      teacher_tokens: figures?.['teacherTokens'] ?? null,
      backward_prompt_tokens: figures?.['backwardPromptTokens'] ?? null,
      backward_response_tokens: figures?.['backwardResponseTokens'] ?? null,
      prompt_tokens: mean(served.map(({ prompt }) => prompt.length)),
      completion_tokens: mean(served.map(({ ids }) => ids.length)),
      latency_p50_ms: percentile(latency, 0.5),
      latency_p99_ms: percentile(latency, 0.99),
      ttft_p50_ms: percentile(first, 0.5),
      ttft_p99_ms: percentile(first, 0.99),
      head_from: reign.length === 0 ? null : new Date(Math.min(...reign.map(({ at }) => at))).toISOString(),
      head_to:
        serves || reign.length === 0 ? null : new Date(Math.max(...reign.map(({ until }) => until!))).toISOString(),
      head_seconds:
        serves || reign.length === 0 ? null : reign.reduce((sum, { at, until }) => sum + (until! - at), 0) / 1000,
    }
  })
}
