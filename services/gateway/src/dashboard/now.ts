/** What the pipeline does now: the gateway's status, and the gauges of the services of this process. */
import type { Metrics, MetricValues } from '@instar/process'
import { statusOf, type GatewayState } from '../admin/core/report.ts'
import type { Lags } from './service-lag.ts'
import { trafficOf } from './traffic.ts'

/** Gauges and counters that the page shows. Those of services in other processes are absent. */
const SHOWN = new Set([
  'instar_trainer_waits',
  'instar_publisher_waits',
  'instar_update_progress',
  'instar_update_remaining_seconds',
  'instar_turns_pending',
  'instar_turns_held',
  'instar_turns_needed',
  'instar_turns_unscored',
  'instar_scorer_judging',
  'instar_scorer_waiting',
  'instar_scorer_held',
  'instar_scores_total',
  'instar_turns_skipped_total',
  'instar_turns_dropped_total',
  'instar_judge_replaced',
  'instar_rejections_in_a_row',
  'instar_gate_probes',
  'instar_base_probes',
  'instar_projections_lag_seconds',
  'instar_log_dead_letters',
  'instar_request_errors_total',
  'instar_requests_running',
  'instar_answers_waiting',
  'instar_records_unreadable_total',
])

export type Gauge = { labels: Record<string, string>; value: number }

/** The values of `SHOWN` by metric, without those that are 0; a metric that this process has not is absent. */
const gaugesIn = (metrics: MetricValues): Record<string, Gauge[]> =>
  Object.fromEntries(
    metrics
      .filter(({ name }) => SHOWN.has(name))
      .map(({ name, values }) => [
        name,
        values
          .filter(({ value }) => value !== 0)
          .map(({ labels, value }): Gauge => ({ labels: labels as Record<string, string>, value })),
      ]),
  )

export const nowOf = async (
  state: GatewayState,
  metrics: Metrics,
  lags: (metrics: MetricValues) => Promise<Lags>,
  now: number,
) => {
  const values = await metrics.allValues()
  return {
    at: new Date(now).toISOString(),
    ...statusOf(state),
    last_version: state.line.last,
    rejections_in_a_row: state.line.rejectionsInARow,
    started_at: state.line.started ? new Date(state.line.started.at).toISOString() : null,
    base: state.line.started?.base ?? null,
    lag: await lags(values),
    gauges: gaugesIn(values),
    traffic: trafficOf(values),
  }
}

/** Time for which a reading is given again, in milliseconds. */
const SHARED_MS = 100

/**
 * `read` at most once at a time and not again for a short time: a reading takes milliseconds of the event loop and asks the
 * services' thread, and any number of callers may ask for it.
 */
export const shared = <T>(read: () => Promise<T>, monotonic: () => number): (() => Promise<T>) => {
  let last: { reading: Promise<T>; until: number } | null = null
  return () => {
    if (last !== null && monotonic() < last.until) return last.reading
    const next = { reading: read(), until: Infinity }
    const settle = (): void => {
      next.until = monotonic() + SHARED_MS
    }
    next.reading.then(settle, settle)
    last = next
    return next.reading
  }
}
