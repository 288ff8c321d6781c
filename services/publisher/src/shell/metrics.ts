/** The publisher's metrics; packages/process/src/metrics/table.ts describes each. */
import type { Logged, FoldOutcome } from '@instar/events'
import type { Metrics } from '@instar/process'
import { PUBLISHER_WAITS } from '@instar/process/metrics/labels'
import type { BaseProgress } from './base.ts'

/**
 * `rejectionsInARow`: consecutive measured candidates that the gate rejected. `probes`: of the line. `asking`: while the base
 * answers its probes.
 */
type CurrentValues = {
  policy: string
  waits: string
  rejectionsInARow: number
  probes: number
  asking: BaseProgress | null
}

const known = (waits: string): string => (PUBLISHER_WAITS.some((one) => one === waits) ? waits : 'other')

/** Registers the metrics. Call the returned function with each record that is read once the publisher is ready. */
export const recordPublisherMetrics = (
  metrics: Metrics,
  now: () => CurrentValues,
): ((logged: Logged, outcome: FoldOutcome | null) => void) => {
  const figures = new Map<string, number>()
  metrics.read('instar_publisher_waits', () =>
    PUBLISHER_WAITS.map((one) => [{ for: one }, one === known(now().waits) ? 1 : 0]),
  )
  metrics.read('instar_rejections_in_a_row', () => [[{}, now().rejectionsInARow]])
  metrics.read('instar_gate_probes', () => [[{}, now().probes]])
  metrics.read('instar_base_probes', () => {
    const { asking } = now()
    return (['asked', 'of', 'kept'] as const).map((figure) => [{ figure }, asking?.[figure] ?? 0])
  })
  metrics.read('instar_verdict_figure', () => [...figures].map(([figure, value]) => [{ figure }, value]))
  return ({ topic, event }, outcome) => {
    if (outcome && !outcome.counted)
      return metrics.count('instar_records_ignored_total', { service: 'publisher', topic, why: outcome.why })
    if (
      !outcome ||
      (event.type !== 'VersionPublished' && event.type !== 'VersionRejected') ||
      event.policy !== now().policy
    )
      return
    metrics.count(
      'instar_verdicts_total',
      event.type === 'VersionPublished'
        ? { verdict: 'accepted', reason: 'none' }
        : { verdict: 'rejected', reason: event.reason },
    )
    figures.clear()
    for (const [figure, value] of Object.entries(event.figures)) figures.set(figure, value)
  }
}
