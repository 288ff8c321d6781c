/** What a process that starts says of its health while it reads the log from its start, beside the state of another build. */
import type { SnapshotStore } from '@instar/log'
import type { Metrics } from '../metrics/metrics.ts'
import type { Health } from './health.ts'

/**
 * `folded`: records that the states have; `lagSeconds`: the age of the oldest record that is not read; null: not known. Null if no
 * state is made anew.
 */
export const foldingHealth = async (
  snapshots: Pick<SnapshotStore, 'folding'>,
  metrics: Pick<Metrics, 'values'>,
): Promise<Health | null> => {
  const states = snapshots.folding()
  if (states.length === 0) return null
  const lag = (await metrics.values()).find(({ name }) => name === 'instar_service_lag_seconds')
  return {
    status: 'folding',
    problem: 'folding',
    states: states.map(({ name }) => name),
    folded: states.reduce((sum, one) => sum + one.folded, 0),
    lagSeconds: lag?.values[0]?.value ?? null,
  }
}

/** Registers the metric of files that builds with another state wrote. */
export const watchOtherBuilds = (metrics: Pick<Metrics, 'read'>, snapshots: Pick<SnapshotStore, 'otherBuilds'>): void =>
  void metrics.read('instar_other_builds_state_bytes', () => [[{}, snapshots.otherBuilds().bytes]])
