/** Fetches records and offsets of partitions, without a consumer group. */
import { InstarError } from '@instar/events/errors'
import {
  kafkaError,
  NoLeader,
  READ_UNCOMMITTED,
  unsupportedCodec,
  type Cluster,
  type FetchResponse,
  type KafkaRecord,
} from './client.ts'
import { BatchTooLarge, MAX_DECOMPRESSED_BYTES, withDecompressionLimit } from './decompression.ts'

/** `topic`: Kafka's name of the topic, with its prefix. */
export type TopicPartition = { topic: string; partition: number }
export type FetchPosition = TopicPartition & { offset: number }
export type FetchedPartition = TopicPartition & {
  /** In order of offsets, none below the requested offset. */
  records: KafkaRecord[]
  /** The first offsets after the requested one that have no record and no marker of a transaction, `next` exclusive. */
  missing?: { first: number; next: number }
  /** The offset of the next fetch. */
  next: number
  /** The high watermark: all in-sync replicas have the records below it, and fetches return no others. */
  end: number
}

type FetchLimits = { maxBytes: number; maxBytesPerPartition: number; maxWaitTime: number }

/** Limits for which Kafka returns one batch. */
const ONE_BATCH: FetchLimits = { maxBytes: 1, maxBytesPerPartition: 1, maxWaitTime: 0 }

/** Special timestamps of Kafka's ListOffsets request. */
export const LATEST = -1
export const EARLIEST = -2

/** The partitions by the node id of their leader. Throws `NoLeader`. */
export const requireLeaders = <P extends TopicPartition>(
  cluster: Cluster,
  partitions: readonly P[],
): Map<string, P[]> => {
  const leaders = new Map<string, P[]>()
  for (const partition of partitions) {
    const [leader] = Object.keys(cluster.findLeaderForPartitions(partition.topic, [partition.partition]))
    if (leader === undefined || leader === '-1') throw new NoLeader([partition])
    const ofLeader = leaders.get(leader)
    if (ofLeader) ofLeader.push(partition)
    else leaders.set(leader, [partition])
  }
  return leaders
}

/** The partitions by the node id of their leader, and those without a leader. */
export const splitByLeader = <P extends TopicPartition>(
  cluster: Cluster,
  partitions: readonly P[],
): { leaders: Map<string, P[]>; leaderless: P[] } => {
  const leaderless = partitions.filter(
    ({ topic, partition }) =>
      cluster.findTopicPartitionMetadata(topic).find((metadata) => metadata.partitionId === partition)?.leader === -1,
  )
  return {
    leaders: requireLeaders(
      cluster,
      partitions.filter((partition) => !leaderless.includes(partition)),
    ),
    leaderless,
  }
}

export const byTopic = <P extends TopicPartition>(partitions: readonly P[]): [string, P[]][] => [
  ...Map.groupBy(partitions, ({ topic }) => topic),
]

/**
 * Fetches from the broker `nodeId`, which must lead all partitions. Waits up to `maxWaitTime` ms for the first record.
 * Throws `unsupported_codec`, `batch_too_large`.
 */
export const fetchFrom = async (
  cluster: Cluster,
  nodeId: string,
  positions: readonly FetchPosition[],
  limits: FetchLimits,
): Promise<FetchedPartition[]> => {
  const broker = await cluster.findBroker({ nodeId })
  const { maxBytes, maxBytesPerPartition, maxWaitTime } = limits
  const request = {
    isolationLevel: READ_UNCOMMITTED,
    minBytes: 1,
    maxBytes,
    maxWaitTime,
    topics: byTopic(positions).map(([topic, partitions]) => ({
      topic,
      partitions: partitions.map(({ partition, offset }) => ({
        partition,
        fetchOffset: String(offset),
        maxBytes: maxBytesPerPartition,
      })),
    })),
  }
  const response: Promise<FetchResponse> = withDecompressionLimit(() => broker.fetch(request))
  const { responses } = await response.catch(async (cause: unknown) => {
    if (isBatchTooLarge(cause)) return throwTooLarge(cluster, nodeId, positions, limits, cause)
    throw unsupportedError(cause, positions) ?? cause
  })
  return responses.flatMap(({ topicName, partitions }) =>
    partitions.map(({ partition, highWatermark, messages }) => {
      const from = positions.find(
        (requested) => requested.topic === topicName && requested.partition === partition,
      )!.offset
      const last = messages.at(-1)
      const missing = firstMissing(from, messages)
      const records = messages.filter((message) => !message.isControlRecord && Number(message.offset) >= from)
      return {
        topic: topicName,
        partition,
        records,
        ...(missing ? { missing } : {}),
        next: last ? Math.max(from, Number(last.offset) + 1) : from,
        end: Number(highWatermark),
      }
    }),
  )
}

/** Kafka assigns offsets without gaps; only compaction removes records between others. */
const firstMissing = (from: number, messages: readonly KafkaRecord[]): FetchedPartition['missing'] => {
  let expected = from
  for (const message of messages) {
    const offset = Number(message.offset)
    if (offset > expected) return { first: expected, next: offset }
    if (offset === expected) expected++
  }
  return undefined
}

const isBatchTooLarge = (cause: unknown): boolean => {
  for (let error = cause; error instanceof Error; error = error.cause) if (error instanceof BatchTooLarge) return true
  return false
}

/**
 * Throws `batch_too_large` with the offset of the batch. Finds it by fetching the partitions apart, then batch by batch:
 * Kafka answers a limit of one byte with one batch. Throws `cause` if no batch is too large any more.
 */
const throwTooLarge = async (
  cluster: Cluster,
  nodeId: string,
  positions: readonly FetchPosition[],
  limits: FetchLimits,
  cause: unknown,
): Promise<never> => {
  const [position, ...others] = positions as [FetchPosition, ...FetchPosition[]]
  if (others.length > 0) {
    for (const single of positions) await fetchFrom(cluster, nodeId, [single], { ...limits, maxWaitTime: 0 })
    throw cause
  }
  const { topic, partition, offset } = position
  if (limits.maxBytesPerPartition === 1)
    throw new InstarError(
      'batch_too_large',
      `the batch at ${topic} ${partition}@${offset} has more than ${MAX_DECOMPRESSED_BYTES} bytes after decompression`,
      { topic, partition, offset },
      { cause },
    )
  for (let at = offset; ;) {
    const [batch] = await fetchFrom(cluster, nodeId, [{ ...position, offset: at }], ONE_BATCH)
    if (batch!.next === at) throw cause
    at = batch!.next
  }
}

/** The error for a codec that cannot be decompressed. Not retryable, since the stored batch does not change. */
const unsupportedError = (cause: unknown, positions: readonly FetchPosition[]): InstarError | undefined => {
  const codec = unsupportedCodec(cause)
  if (codec === undefined) return undefined
  const partitions = positions.map(({ topic, partition, offset }) => `${topic} ${partition}@${offset}`).join(', ')
  return new InstarError(
    'unsupported_codec',
    `records at or after ${partitions} are compressed with ${codec}, which is not supported; supported are gzip and zstd`,
    { codec },
  )
}

/** The first offset of each partition at or after a time (ms, or `EARLIEST`, `LATEST`); -1 if there is none. */
export const offsetsAt = async (
  cluster: Cluster,
  partitions: readonly TopicPartition[],
  time: number,
): Promise<FetchPosition[]> => {
  const offsets = await Promise.all(
    [...requireLeaders(cluster, partitions)].map(async ([nodeId, ofLeader]) => {
      const broker = await cluster.findBroker({ nodeId })
      const { responses } = await broker.listOffsets({
        replicaId: -1,
        isolationLevel: READ_UNCOMMITTED,
        topics: byTopic(ofLeader).map(([topic, of]) => ({
          topic,
          partitions: of.map(({ partition }) => ({ partition, timestamp: time })),
        })),
      })
      return responses.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition, offset }) => ({ topic, partition, offset: Number(offset) })),
      )
    }),
  )
  return offsets.flat()
}

/** The record at a position; undefined if there is none. */
export const fetchRecord = async (cluster: Cluster, position: FetchPosition): Promise<KafkaRecord | undefined> => {
  const [nodeId] = requireLeaders(cluster, [position]).keys()
  try {
    const [fetched] = await fetchFrom(cluster, nodeId!, [position], ONE_BATCH)
    return fetched?.records.find((record) => Number(record.offset) === position.offset)
  } catch (cause) {
    if (kafkaError(cause) === 'OFFSET_OUT_OF_RANGE') return undefined
    throw cause
  }
}
