/** The trainer's metrics; packages/process/src/metrics/table.ts describes each. */
import type { Logged, FoldOutcome } from '@instar/events'
import type { Metrics } from '@instar/process'
import type { UpdateProgress } from '../core/progress.ts'
import { TRAINER_WAITS } from '@instar/process/metrics/labels'

/**
 * `held`: turns beyond the shares of their API keys. `needed`: turns that the next batch lacks. `shares`, `figures`: of the last batch; null while it has none.
 */
type CurrentValues = {
  waits: string
  pending: number
  held: number
  needed: number
  episodes: { waiting: number; beyond: number }
  shares: { key: number; subject: number } | null
  figures: Readonly<Record<string, number>> | null
  /** The update that is being computed. */
  update: UpdateProgress | null
}

const known = (waits: string): string => (TRAINER_WAITS.some((one) => one === waits) ? waits : 'other')

/**
 * Registers the metrics. Call the returned function with each record that is read once the trainer is ready. `now` is
 * called when metrics are read, not for each record: it counts the turns and episodes that wait.
 */
export const recordTrainerMetrics = (
  metrics: Metrics,
  policy: string,
  now: () => CurrentValues,
): ((logged: Logged, outcome: FoldOutcome | null) => void) => {
  let figures: Readonly<Record<string, number>> = {}
  metrics.read('instar_trainer_waits', () =>
    TRAINER_WAITS.map((one) => [{ for: one }, one === known(now().waits) ? 1 : 0]),
  )
  metrics.read('instar_update_progress', () => [[{}, now().update?.share ?? 0]])
  metrics.read('instar_update_remaining_seconds', () => [[{}, (now().update?.remainingMs ?? 0) / 1000]])
  metrics.read('instar_turns_pending', () => [[{}, now().pending]])
  metrics.read('instar_turns_needed', () => [[{}, now().needed]])
  metrics.read('instar_turns_held', () => [[{}, now().held]])
  metrics.read('instar_episodes', () => {
    const { waiting, beyond } = now().episodes
    return [
      [{ state: 'waiting' }, waiting],
      [{ state: 'beyond' }, beyond],
    ]
  })
  metrics.read('instar_batch_share', () =>
    Object.entries(now().shares ?? {}).map(([of, share]) => [{ of: of as 'key' | 'subject' }, share]),
  )
  metrics.read('instar_update_figure', () => {
    figures = now().figures ?? figures
    return Object.entries(figures).map(([figure, value]) => [{ figure }, value])
  })
  return ({ topic, event }, outcome) => {
    if (outcome && !outcome.counted)
      return metrics.count('instar_records_ignored_total', { service: 'trainer', topic, why: outcome.why })
    if (!outcome || !('policy' in event) || event.policy !== policy) return
    if (event.type === 'BatchSealed') {
      metrics.count('instar_batches_sealed_total', {})
      for (const { reason } of event.dropped) metrics.count('instar_turns_dropped_total', { reason })
    } else if (event.type === 'UpdateFailed') metrics.count('instar_updates_total', { outcome: 'failed' })
    else if (event.type === 'UpdateComputed') {
      figures = event.figures
      metrics.count('instar_updates_total', { outcome: 'computed' })
      metrics.observe('instar_update_duration_seconds', {}, (event.at - event.startedAt) / 1000)
    }
  }
}
