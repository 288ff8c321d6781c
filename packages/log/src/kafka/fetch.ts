/** Fetches partitions from given offsets, without a consumer group. */
import { InstarError } from '@instar/events/errors'
import { codecRefused, NoLeader, READ_UNCOMMITTED, type Cluster, type Fetchable, type FetchResponse } from './client.ts'

/** Kafka's own name of a topic. */
export type TopicPartition = { topic: string; partition: number }
export type FetchPosition = TopicPartition & { offset: number }
export type Fetched = TopicPartition & {
  /** In order, none below the offset that was asked for. */
  records: Fetchable[]
  /** Where to go on. */
  next: number
  /** The high watermark: every record below it is on all in-sync replicas, and none at or above it is returned. */
  end: number
}

type FetchLimits = { maxBytes: number; maxBytesPerPartition: number; maxWaitTime: number }

/** What ListOffsets takes instead of a time. */
export const LATEST = -1
export const EARLIEST = -2

export const byLeader = <P extends TopicPartition>(cluster: Cluster, places: readonly P[]): Map<string, P[]> => {
  const leaders = new Map<string, P[]>()
  for (const place of places) {
    const [leader] = Object.keys(cluster.findLeaderForPartitions(place.topic, [place.partition]))
    if (leader === undefined || leader === '-1') throw new NoLeader([place])
    const led = leaders.get(leader)
    if (led) led.push(place)
    else leaders.set(leader, [place])
  }
  return leaders
}

/** Partitions by leader, and partitions without one. */
export const led = <P extends TopicPartition>(
  cluster: Cluster,
  places: readonly P[],
): { leaders: Map<string, P[]>; leaderless: P[] } => {
  const leaderless = places.filter(
    ({ topic, partition }) =>
      cluster.findTopicPartitionMetadata(topic).find((one) => one.partitionId === partition)?.leader === -1,
  )
  return {
    leaders: byLeader(
      cluster,
      places.filter((place) => !leaderless.includes(place)),
    ),
    leaderless,
  }
}

export const byTopic = <P extends TopicPartition>(places: readonly P[]): [string, P[]][] => [
  ...Map.groupBy(places, ({ topic }) => topic),
]

/**
 * All of `wants` are led by the broker `nodeId`. Waits up to `maxWaitTime` for the first record. Throws
 * `unsupported_codec`.
 */
export const fetchFrom = async (
  cluster: Cluster,
  nodeId: string,
  wants: readonly FetchPosition[],
  limits: FetchLimits,
): Promise<Fetched[]> => {
  const broker = await cluster.findBroker({ nodeId })
  const { maxBytes, maxBytesPerPartition, maxWaitTime } = limits
  const asking: Promise<FetchResponse> = broker.fetch({
    isolationLevel: READ_UNCOMMITTED,
    minBytes: 1,
    maxBytes,
    maxWaitTime,
    topics: byTopic(wants).map(([topic, places]) => ({
      topic,
      partitions: places.map(({ partition, offset }) => ({
        partition,
        fetchOffset: String(offset),
        maxBytes: maxBytesPerPartition,
      })),
    })),
  })
  const { responses } = await asking.catch((cause: unknown) => {
    throw unsupported(cause, wants) ?? cause
  })
  return responses.flatMap(({ topicName, partitions }) =>
    partitions.map(({ partition, highWatermark, messages }) => {
      const from = wants.find((want) => want.topic === topicName && want.partition === partition)!.offset
      const last = messages.at(-1)
      const records = messages.filter((message) => !message.isControlRecord && Number(message.offset) >= from)
      return {
        topic: topicName,
        partition,
        records,
        next: last ? Math.max(from, Number(last.offset) + 1) : from,
        end: Number(highWatermark),
      }
    }),
  )
}

/** A retry does not help: the stored batch does not change. */
const unsupported = (cause: unknown, wants: readonly FetchPosition[]): InstarError | undefined => {
  const codec = codecRefused(cause)
  if (codec === undefined) return undefined
  const places = wants.map(({ topic, partition, offset }) => `${topic} ${partition}@${offset}`).join(', ')
  return new InstarError(
    'unsupported_codec',
    `records at or behind ${places} are compressed with ${codec}, which cannot be read`,
    { codec },
  )
}

/** The first offset at or after a time (or `EARLIEST`, `LATEST`) of each place; -1 when there is none. */
export const offsetsAt = async (
  cluster: Cluster,
  places: readonly TopicPartition[],
  time: number,
): Promise<FetchPosition[]> => {
  const answers = await Promise.all(
    [...byLeader(cluster, places)].map(async ([nodeId, led]) => {
      const broker = await cluster.findBroker({ nodeId })
      const { responses } = await broker.listOffsets({
        replicaId: -1,
        isolationLevel: READ_UNCOMMITTED,
        topics: byTopic(led).map(([topic, of]) => ({
          topic,
          partitions: of.map(({ partition }) => ({ partition, timestamp: time })),
        })),
      })
      return responses.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition, offset }) => ({ topic, partition, offset: Number(offset) })),
      )
    }),
  )
  return answers.flat()
}
