/** How far PostgreSQL is behind the log. */
import type { EventLog } from '@instar/log/port'
import type { Topic } from '@instar/events/flow'
import type { Metrics } from '@instar/process'
import { PROJECTED } from './project.ts'
import type { Projections } from './run.ts'
import { partitionKey, type Mark } from './sink.ts'

/** Partitions with unprojected records, and the time of the oldest; null when there are none or it is not known. */
type ProjectionLag = { partitions: number; since: number | null }

export const watchProjections = (
  metrics: Metrics,
  log: EventLog,
  projections: Projections,
  now: () => number,
): void => {
  const look = async (): Promise<[Topic, ProjectionLag][]> => {
    const ends = await log.ends(PROJECTED)
    const marks = projections.marks()
    return marks
      ? Promise.all(PROJECTED.map(async (topic) => [topic, await behindOf(log, topic, marks, ends[topic] ?? {})]))
      : []
  }
  let looking: Promise<[Topic, ProjectionLag][]> | null = null
  /** Both metrics are asked for at once: what is under way answers the second too. */
  const behind = (): Promise<[Topic, ProjectionLag][]> =>
    (looking ??= look().finally(() => {
      looking = null
    }))
  metrics.read('instar_projections_behind_partitions', async () =>
    (await behind()).map(([topic, { partitions }]) => [{ topic }, partitions]),
  )
  metrics.read('instar_projections_lag_seconds', async () =>
    (await behind()).map(([topic, { since }]) => [{ topic }, since === null ? 0 : Math.max(0, now() - since) / 1000]),
  )
}

const behindOf = async (
  log: EventLog,
  topic: Topic,
  marks: ReadonlyMap<string, Mark>,
  ends: Readonly<Record<number, number>>,
): Promise<ProjectionLag> => {
  const lacking = Object.entries(ends)
    .map(([partition, end]) => ({
      partition: Number(partition),
      from: marks.get(partitionKey({ topic, partition: Number(partition) }))?.next ?? 0,
      end,
    }))
    .filter(({ from, end }) => from < end)
  const times = await Promise.all(lacking.map(({ partition, from }) => firstTime(log, topic, partition, from)))
  const known = times.filter((time) => time !== null)
  return { partitions: lacking.length, since: known.length > 0 ? Math.min(...known) : null }
}

const firstTime = async (log: EventLog, topic: Topic, partition: number, from: number): Promise<number | null> => {
  for await (const [record] of log.read(topic, { partition, from: { [topic]: { [partition]: from } }, maxBatch: 1 }))
    if (record) return record.timestamp
  return null
}
