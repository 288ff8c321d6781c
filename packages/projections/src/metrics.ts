/** Metrics of the lag of PostgreSQL behind the log. */
import type { EventLog } from '@instar/log/port'
import type { Topic } from '@instar/events/flow'
import type { Metrics } from '@instar/process'
import { PROJECTED } from './project.ts'
import type { Projections } from './run.ts'
import { partitionKey, type Mark } from './sink.ts'

/**
 * `partitions`: number of partitions with records that are not in PostgreSQL. `since`: time of the oldest such record,
 * milliseconds since the epoch; null if there is none or it is not known.
 */
type ProjectionLag = { partitions: number; since: number | null }

export const watchProjections = (
  metrics: Metrics,
  log: EventLog,
  projections: Projections,
  now: () => number,
): void => {
  const measure = async (): Promise<[Topic, ProjectionLag][]> => {
    const ends = await log.ends(PROJECTED)
    const marks = projections.marks()
    return marks
      ? Promise.all(PROJECTED.map(async (topic) => [topic, await lagOf(log, topic, marks, ends[topic] ?? {})]))
      : []
  }
  let measuring: Promise<[Topic, ProjectionLag][]> | null = null
  /** Both metrics are read at the same time and share one measurement. */
  const lags = (): Promise<[Topic, ProjectionLag][]> =>
    (measuring ??= measure().finally(() => {
      measuring = null
    }))
  metrics.read('instar_projections_behind_partitions', async () =>
    (await lags()).map(([topic, { partitions }]) => [{ topic }, partitions]),
  )
  metrics.read('instar_projections_lag_seconds', async () =>
    (await lags()).map(([topic, { since }]) => [{ topic }, since === null ? 0 : Math.max(0, now() - since) / 1000]),
  )
}

const lagOf = async (
  log: EventLog,
  topic: Topic,
  marks: ReadonlyMap<string, Mark>,
  ends: Readonly<Record<number, number>>,
): Promise<ProjectionLag> => {
  const behind = Object.entries(ends)
    .map(([partition, end]) => ({
      partition: Number(partition),
      from: marks.get(partitionKey({ topic, partition: Number(partition) }))?.next ?? 0,
      end,
    }))
    .filter(({ from, end }) => from < end)
  const times = await Promise.all(behind.map(({ partition, from }) => firstTime(log, topic, partition, from)))
  const known = times.filter((time) => time !== null)
  return { partitions: behind.length, since: known.length > 0 ? Math.min(...known) : null }
}

const firstTime = async (log: EventLog, topic: Topic, partition: number, from: number): Promise<number | null> => {
  for await (const [record] of log.read(topic, { partition, from: { [topic]: { [partition]: from } }, maxBatch: 1 }))
    if (record) return record.timestamp
  return null
}
