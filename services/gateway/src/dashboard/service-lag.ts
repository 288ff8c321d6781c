/** How far each service is behind the log, as far as this process can know it. */
import { PROJECTED } from '@instar/projections/findings'
import type { Offsets } from '@instar/log'
import { oldestUnread, type LagLog } from '@instar/process/metrics/lag'
import type { MetricValues } from '@instar/process'
import type { ReadModel } from '@instar/projections/read-model'

/** Age of the oldest record that is not read, in seconds; 0: none. Null: not known here. */
export type Lags = Record<'gateway' | 'scorer' | 'trainer' | 'publisher' | 'projections', number | null>

/** Age up to which the positions of projections in another process are given again, in milliseconds. */
const KEPT_MS = 5_000

/** The largest value of a metric of this process; null if it has none. */
const valueOf = (metrics: MetricValues, name: string, service?: string): number | null => {
  const values = (metrics.find((metric) => metric.name === name)?.values ?? [])
    .filter(({ labels }) => service === undefined || labels['service'] === service)
    .map(({ value }) => value)
  return values.length === 0 ? null : Math.max(...values)
}

type LagPorts = { log: LagLog; readModel: Pick<ReadModel, 'inspect'> | null; now: () => number }

/**
 * From the metrics of this process; of projections in another process, from the positions that they store in PostgreSQL.
 * `lags` never rejects.
 */
export const createLags = ({ log, readModel, now }: LagPorts): ((metrics: MetricValues) => Promise<Lags>) => {
  let last: { at: number; since: Promise<number | null> } | null = null
  const stored = async (): Promise<number | null> => {
    const { migrations, marks } = await readModel!.inspect()
    if (migrations.state !== 'current') throw new Error('the tables are not of this build')
    const read: Partial<Record<string, Record<number, number>>> = {}
    for (const { topic, partition, next } of marks) (read[topic] ??= {})[partition] = next
    return oldestUnread(log, PROJECTED, read as Offsets)
  }
  const projections = async (): Promise<number | null> => {
    if (!readModel) return null
    const at = now()
    if (last === null || at - last.at >= KEPT_MS || at < last.at) last = { at, since: stored() }
    try {
      const since = await last.since
      return since === null ? 0 : Math.max(0, now() - since) / 1000
    } catch {
      return null
    }
  }
  return async (metrics) => {
    const of = (service: string): number | null => valueOf(metrics, 'instar_service_lag_seconds', service)
    return {
      gateway: of('gateway'),
      scorer: of('scorer'),
      trainer: of('trainer'),
      publisher: of('publisher'),
      projections: valueOf(metrics, 'instar_projections_lag_seconds') ?? (await projections()),
    }
  }
}
