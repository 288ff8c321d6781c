/** What the pipeline does now: the gateway's status, and the gauges of the services of this process. */
import type { Metrics } from '@instar/process'
import { statusOf, type GatewayState } from '../admin/core/report.ts'

/** Gauges and counters that the page shows. Those of services in other processes are absent. */
const SHOWN = new Set([
  'instar_trainer_waits',
  'instar_publisher_waits',
  'instar_update_progress',
  'instar_update_remaining_seconds',
  'instar_turns_pending',
  'instar_turns_held',
  'instar_turns_unscored',
  'instar_scorer_judging',
  'instar_scorer_waiting',
  'instar_scores_total',
  'instar_turns_skipped_total',
  'instar_turns_dropped_total',
  'instar_judge_replaced',
  'instar_rejections_in_a_row',
  'instar_gate_probes',
  'instar_projections_lag_seconds',
  'instar_log_dead_letters',
  'instar_request_errors_total',
  'instar_requests_running',
  'instar_answers_waiting',
  'instar_records_unreadable_total',
])

export type Gauge = { labels: Record<string, string>; value: number }

const LINE = /^(instar_\w+)(?:\{([^}]*)\})? (\S+)/
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g

/** The values of `SHOWN` in Prometheus's text format, without those that are 0. */
export const gaugesIn = (text: string): Record<string, Gauge[]> => {
  const gauges: Record<string, Gauge[]> = {}
  for (const line of text.split('\n')) {
    const match = LINE.exec(line)
    if (!match || !SHOWN.has(match[1]!)) continue
    const value = Number(match[3])
    if (!Number.isFinite(value) || value === 0) continue
    const labels = Object.fromEntries([...(match[2] ?? '').matchAll(LABEL)].map(([, name, said]) => [name!, said!]))
    ;(gauges[match[1]!] ??= []).push({ labels, value })
  }
  return gauges
}

export const nowOf = async (state: GatewayState, metrics: Metrics, now: number) => ({
  at: new Date(now).toISOString(),
  ...statusOf(state),
  last_version: state.line.last,
  rejections_in_a_row: state.line.rejectionsInARow,
  started_at: state.line.started ? new Date(state.line.started.at).toISOString() : null,
  base: state.line.started?.base ?? null,
  gauges: gaugesIn(await metrics.text()),
})
