/** How far each service is behind the log, as far as this process can know it. */
import { setTimeout } from 'node:timers/promises'
import { TOPICS } from '@instar/events'
import { PROJECTED } from '@instar/projections/findings'
import type { EventLog, Offsets } from '@instar/log'
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

/** Services that commit their positions on a log that several processes read. */
const COMMITTING = ['scorer', 'trainer', 'publisher'] as const
type Committing = (typeof COMMITTING)[number]
/** Age from which on what was committed is unknown: no later reading of it succeeded. */
const FORGOTTEN_MS = 30_000
/**
 * Records of so short a time are not held against a service: what it committed, and the reading of it, are each up to five
 * seconds old.
 */
const UNSEEN_MS = 15_000
/** Time that the first reading may take of the answer. */
const FIRST_MS = 300

type LagPorts = {
  log: LagLog & Pick<EventLog, 'committed'>
  readModel: Pick<ReadModel, 'inspect'> | null
  policy: string
  now: () => number
}

/** What services of other processes have committed; read beside requests, and given again for `KEPT_MS`. */
const createCommitted = ({ log, policy, now }: LagPorts): ((service: Committing) => Promise<number | null>) => {
  type Known = { at: number; since: Record<Committing, number | null | undefined> }
  let known: Known | null = null
  let reading: { begun: number; done: Promise<void> } | null = null
  /** The time of the oldest record that the service has not read; null: it has read all; undefined: it has committed nothing. */
  const sinceOf = async (service: Committing): Promise<number | null | undefined> => {
    const read = (await log.committed!(`${service}.${policy}`, TOPICS)) ?? {}
    const topics = TOPICS.filter((topic) => Object.keys(read[topic] ?? {}).length > 0)
    return topics.length === 0 ? undefined : oldestUnread(log, topics, read)
  }
  const refresh = async (): Promise<void> => {
    try {
      const [scorer, trainer, publisher] = await Promise.all(COMMITTING.map(sinceOf))
      known = { at: now(), since: { scorer, trainer, publisher } }
    } catch {
      // What is known is told until it is too old.
    } finally {
      reading = null
    }
  }
  return async (service) => {
    if (!log.committed) return null
    const stale = known === null || now() - known.at >= KEPT_MS || now() < known.at
    if (stale && reading === null) reading = { begun: now(), done: refresh() }
    if (known === null && reading !== null)
      await Promise.race([reading.done, setTimeout(FIRST_MS, null, { ref: false })])
    if (known === null || now() - known.at >= FORGOTTEN_MS) return null
    const since = known.since[service]
    if (since === undefined) return null
    const age = since === null ? 0 : now() - since
    return age <= UNSEEN_MS ? 0 : age / 1000
  }
}

/**
 * From the metrics of this process; of projections in another process, from the positions that they store in PostgreSQL; of
 * other services, from those that they commit.
 * `lags` never rejects.
 */
export const createLags = (ports: LagPorts): ((metrics: MetricValues) => Promise<Lags>) => {
  const { log, readModel, now } = ports
  const committed = createCommitted(ports)
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
    const [scorer, trainer, publisher] = await Promise.all(
      COMMITTING.map(async (service) => of(service) ?? (await committed(service))),
    )
    return {
      gateway: of('gateway'),
      scorer: scorer!,
      trainer: trainer!,
      publisher: publisher!,
      projections: valueOf(metrics, 'instar_projections_lag_seconds') ?? (await projections()),
    }
  }
}
