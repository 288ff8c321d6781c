/** Fetches records and offsets of partitions, without a consumer group. */
import { InstarError } from '@instar/events/errors'
import { kafkaError, NoLeader, READ_UNCOMMITTED, type Cluster, type KafkaRecord } from './client.ts'
import { kafkaBackoff } from './retry.ts'
import { decodeRecordSet, fetchBudget, UnreadableBatch, type RecordSet } from './record-set.ts'

/** `topic`: Kafka's name of the topic, with its prefix. */
export type TopicPartition = { topic: string; partition: number }
export type FetchPosition = TopicPartition & { offset: number }
export type FetchedPartition = TopicPartition &
  RecordSet & {
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
 * Throws `unsupported_codec`, `batch_too_large` and `batch_damaged` for the first batch of a partition.
 */
export const fetchFrom = async (
  cluster: Cluster,
  nodeId: string,
  positions: readonly FetchPosition[],
  limits: FetchLimits,
): Promise<FetchedPartition[]> => {
  const broker = await cluster.findBroker({ nodeId })
  const { maxBytes, maxBytesPerPartition, maxWaitTime } = limits
  const { responses } = await broker.fetchBatches({
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
  })
  const budget = fetchBudget()
  const fetched: FetchedPartition[] = []
  for (const { topicName: topic, partitions } of responses) {
    for (const { partition, highWatermark, messages } of partitions) {
      const { offset } = positions.find((requested) => requested.topic === topic && requested.partition === partition)!
      const set = await decodeRecordSet(messages, offset, budget).catch((cause: unknown) => {
        throw cause instanceof UnreadableBatch ? unreadableError(topic, partition, cause) : cause
      })
      fetched.push({ topic, partition, ...set, end: Number(highWatermark) })
    }
  }
  return fetched
}

/** The error for a batch that no reader can decode. Not retryable, since the stored batch does not change. */
const unreadableError = (topic: string, partition: number, cause: UnreadableBatch): InstarError => {
  const { code, offset, codec, message } = cause
  return new InstarError(
    code,
    `the batch at ${topic} ${partition}@${offset} cannot be read: ${message}`,
    { topic, partition, offset, ...(code === 'unsupported_codec' ? { codec } : {}) },
    { cause },
  )
}

/** Milliseconds for which fetches may return nothing below the end of a partition, as after a change of its leader. */
const STALLED_MS = 30_000

/** Ends a loop of fetches that reach no end. `what`: what is read, for the error. */
export class Progress {
  readonly #what: string
  readonly #limitMs: number
  readonly #backoff = kafkaBackoff()
  #stalledSince: number | undefined

  constructor(what: string, limitMs = STALLED_MS) {
    this.#what = what
    this.#limitMs = limitMs
  }

  /** Call it after a fetch; waits if it returned nothing. Throws `log_unavailable` if none has for the limit. */
  async after(moved: boolean, signal: AbortSignal = NEVER): Promise<void> {
    if (moved) {
      this.#stalledSince = undefined
      return this.#backoff.reset()
    }
    const now = performance.now()
    this.#stalledSince ??= now
    if (now - this.#stalledSince >= this.#limitMs)
      throw new InstarError(
        'log_unavailable',
        `Kafka returns nothing of ${this.#what}, although its end is not reached`,
      )
    await this.#backoff.wait(signal)
  }
}
const NEVER = new AbortController().signal

/** Runs requests on the connections of a log. */
export type Use = <T>(work: (cluster: Cluster) => Promise<T>) => Promise<T>

/** Fetches a partition from an offset to its end as of the call. */
export async function* fetchToEnd(
  use: Use,
  partition: TopicPartition,
  from: number,
  limits: FetchLimits,
  stalledMs = STALLED_MS,
): AsyncGenerator<FetchedPartition> {
  const [[first], [last]] = await use((cluster) =>
    Promise.all([offsetsAt(cluster, [partition], EARLIEST), offsetsAt(cluster, [partition], LATEST)]),
  )
  const progress = new Progress(`${partition.topic} ${partition.partition}`, stalledMs)
  for (let offset = Math.max(from, first!.offset); offset < last!.offset;) {
    const from = offset
    const [batch] = await use((cluster) => {
      const [nodeId] = requireLeaders(cluster, [partition]).keys()
      return fetchFrom(cluster, nodeId!, [{ ...partition, offset: from }], limits)
    })
    await progress.after(batch !== undefined && batch.next > offset)
    if (!batch) continue
    offset = batch.next
    yield batch
  }
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

/**
 * The record at a position; undefined if there is none. A broker answers with no partition where a quota throttles the client,
 * and with no record after a change of the leader: neither says that there is none. Nor does the end of a fetch, since a new
 * leader may have a lower one than the records that are acknowledged; the end that ListOffsets gives is never lower (KIP-207).
 * Throws `log_unavailable` as `Progress`.
 */
export const fetchRecord = async (
  cluster: Cluster,
  position: FetchPosition,
  stalledMs = STALLED_MS,
): Promise<KafkaRecord | undefined> => {
  const { topic, partition, offset } = position
  const progress = new Progress(`${topic} ${partition}`, stalledMs)
  for (;;) {
    const [nodeId] = requireLeaders(cluster, [position]).keys()
    try {
      const [fetched] = await fetchFrom(cluster, nodeId!, [position], ONE_BATCH)
      if (fetched && fetched.next > offset) return fetched.records.find((record) => Number(record.offset) === offset)
      if (fetched && fetched.end <= offset) {
        const [last] = await offsetsAt(cluster, [position], LATEST)
        if (last && last.offset <= offset) return undefined
      }
    } catch (cause) {
      if (kafkaError(cause) === 'OFFSET_OUT_OF_RANGE') return undefined
      throw cause
    }
    await progress.after(false)
  }
}
