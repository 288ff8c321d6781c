/** How far a service is behind the log in reading it. */
import type { Topic } from '@instar/events'
import type { EventLog, Offsets } from '@instar/log'
import type { SERVICE } from './labels.ts'
import type { Metrics } from './metrics.ts'

export type LagLog = Pick<EventLog, 'ends' | 'read'>

/** Time for which a measurement is given again, in milliseconds: a reading of the metrics asks the log for its ends. */
const KEPT_MS = 900

type Reads = (topic: Topic, partition: number) => boolean

/** The time of the first record from an offset on, milliseconds since the epoch; null if there is none. */
const firstTime = async (log: LagLog, topic: Topic, partition: number, from: number): Promise<number | null> => {
  for await (const [record] of log.read(topic, { partition, from: { [topic]: { [partition]: from } }, maxBatch: 1 }))
    if (record) return record.timestamp
  return null
}

/**
 * The time of the oldest record of the topics that is not read, milliseconds since the epoch; null: all are. `read`: the
 * next offset to read of each partition; 0 where it is absent. Partitions that `reads` denies do not count.
 */
export const oldestUnread = async (
  log: LagLog,
  topics: readonly Topic[],
  read: Offsets,
  reads: Reads = () => true,
): Promise<number | null> => {
  const ends = await log.ends(topics)
  const times = await Promise.all(
    topics.flatMap((topic) =>
      Object.entries(ends[topic] ?? {}).flatMap(([text, end]) => {
        const partition = Number(text)
        const next = read[topic]?.[partition] ?? 0
        return next < end && reads(topic, partition) ? [firstTime(log, topic, partition, next)] : []
      }),
    ),
  )
  const known = times.filter((time) => time !== null)
  return known.length > 0 ? Math.min(...known) : null
}

type Watched = {
  service: (typeof SERVICE)[number]
  topics: readonly Topic[]
  /** As `read` of `oldestUnread`; null while the service does not read: there is no value then. */
  read: () => Offsets | null
  /** Whether it reads this partition now. Default: it reads all. */
  reads?: Reads
  now: () => number
}

/** Registers the metric of the service's lag. */
export const watchLag = (metrics: Metrics, log: LagLog, { service, topics, read, reads, now }: Watched): void => {
  let last: { at: number; since: Promise<number | null> } | null = null
  metrics.read('instar_service_lag_seconds', async () => {
    const at = now()
    const offsets = read()
    if (offsets === null) return []
    if (last === null || at - last.at >= KEPT_MS || at < last.at)
      last = { at, since: oldestUnread(log, topics, offsets, reads) }
    const since = await last.since
    return [[{ service }, since === null ? 0 : Math.max(0, now() - since) / 1000]]
  })
}

/** `over` in place of `under`, partition by partition. */
export const offsetsOver = (under: Offsets, over: Offsets): Offsets =>
  Object.fromEntries(
    [...new Set([...Object.keys(under), ...Object.keys(over)] as Topic[])].map((topic) => [
      topic,
      { ...under[topic], ...over[topic] },
    ]),
  )
