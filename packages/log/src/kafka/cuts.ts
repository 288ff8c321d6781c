/** Cuts of a log on Kafka, where any client with the permission, and retention, can delete the first records of a partition. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { allowedStarts, CUT_TOPICS, cutAway, cutsOn, requireAllowed } from '../cuts.ts'
import type { PartitionCounts } from '../partition.ts'
import type { EventLog, Offsets, Position, ReadOptions } from '../port.ts'
import { kafkaError, type Cluster } from './client.ts'
import { EARLIEST, offsetsAt, requireLeaders, type FetchPosition } from './fetch.ts'
import { truncatedError } from './open-checks.ts'
import type { ReadBounds } from './reading.ts'
import { allPartitions, offsetsByTopic } from './topic-offsets.ts'
import type { TopicNames } from './topics.ts'

type CutParts = {
  log: Pick<EventLog, 'read'>
  names: TopicNames
  counts: PartitionCounts
  request<T>(what: string, work: (cluster: Cluster) => Promise<T>): Promise<T>
}

/** Tells cuts that a record on the log allows from records that are lost. */
export class Cuts {
  readonly #parts: CutParts
  /** As of the last reading. */
  #allowed: Offsets = {}

  constructor(parts: CutParts) {
    this.#parts = parts
  }

  async starts(topics: readonly Topic[]): Promise<Offsets> {
    const { names, counts, request } = this.#parts
    const partitions = allPartitions(topics, names, counts)
    const first = await request('reading first offsets', (cluster) => offsetsAt(cluster, partitions, EARLIEST))
    return offsetsByTopic(topics, names, first)
  }

  /** Throws `kafka_refused` where the user may not delete records. */
  async cut(starts: Offsets): Promise<void> {
    const { log, names, request } = this.#parts
    requireAllowed(starts, await cutsOn(log))
    for (const positions of positionsByTopic(starts, names))
      await request('deleting records', (cluster) => deleteBelow(cluster, positions))
  }

  /** Throws where there is no record at the position since it was deleted. */
  async requireAt({ topic, partition, offset }: Position): Promise<void> {
    if (partition < 0 || partition >= this.#parts.counts[topic] || offset < 0) return
    const first = (await this.starts([topic]))[topic]?.[partition] ?? 0
    if (offset < first) throw await this.missing(topic, partition, first)
  }

  /** The bounds of a read, as `requireHeld`. */
  async heldBounds(topic: Topic, bounds: ReadBounds, options: Pick<ReadOptions, 'from'>): Promise<ReadBounds> {
    await this.requireHeld(topic, bounds.first, wantedStarts(bounds, options))
    return bounds
  }

  /** The error for records below the first offset of a partition. */
  async missing(topic: Topic, partition: number, first: number): Promise<InstarError> {
    return (await this.#allows(topic, partition, first))
      ? cutAway(topic, partition, first)
      : truncatedError(topic, partition, first)
  }

  /**
   * Throws `log_truncated` if a partition lacks records that no cut has deleted, and `cutAway` if it would be read from below its
   * first offset. `first`: by partition; 0 for those that are not read.
   */
  async requireHeld(topic: Topic, first: readonly number[], starts?: readonly number[]): Promise<void> {
    for (const [partition, offset] of first.entries()) {
      if (offset <= 0) continue
      if (!(await this.#allows(topic, partition, offset))) throw truncatedError(topic, partition, offset)
      if (starts && starts[partition]! < offset) throw cutAway(topic, partition, offset)
    }
  }

  async #allows(topic: Topic, partition: number, first: number): Promise<boolean> {
    if (!CUT_TOPICS.some((one) => one === topic)) return false
    const isAllowed = (): boolean => first <= (this.#allowed[topic]?.[partition] ?? 0)
    if (!isAllowed()) this.#allowed = allowedStarts(await cutsOn(this.#parts.log))
    return isAllowed()
  }
}

/** What a read asks for. Where the first record that is held is of the time of a read already, some before it may be. */
const wantedStarts = ({ starts }: ReadBounds, { from }: Pick<ReadOptions, 'from'>): number[] =>
  from !== undefined && 'time' in from ? starts.map((start) => start - 1) : starts

const positionsByTopic = (starts: Offsets, names: TopicNames): FetchPosition[][] =>
  (Object.entries(starts) as [Topic, Readonly<Record<number, number>>][]).map(([topic, of]) =>
    Object.entries(of).map(([partition, offset]) => ({ topic: names.of(topic), partition: Number(partition), offset })),
  )

/** Deletes the records of partitions of one topic below the offsets; resolves when all in-sync replicas have. Throws `kafka_refused`. */
const deleteBelow = async (cluster: Cluster, positions: readonly FetchPosition[]): Promise<void> => {
  const first = await offsetsAt(cluster, positions, EARLIEST)
  const isBelow = ({ partition, offset }: FetchPosition): boolean =>
    first.find((one) => one.partition === partition)!.offset < offset
  for (const [nodeId, of] of requireLeaders(cluster, positions.filter(isBelow))) {
    const broker = await cluster.findBroker({ nodeId })
    const partitions = of.map(({ partition, offset }) => ({ partition, offset: String(offset) }))
    try {
      await broker.deleteRecords({ topics: [{ topic: of[0]!.topic, partitions }] })
    } catch (cause) {
      const why = errorsOf(cause).find((code) => code?.endsWith('AUTHORIZATION_FAILED') || code === 'POLICY_VIOLATION')
      if (why === undefined) throw cause
      throw new InstarError(
        'kafka_refused',
        `Kafka: records of ${of[0]!.topic} cannot be deleted: ${why}; the user needs the operation Delete on the topic`,
        { topic: of[0]!.topic },
        { cause },
      )
    }
  }
}

/** Of all partitions: kafkajs's error lists them. */
const errorsOf = (cause: unknown): (string | undefined)[] => {
  const { partitions = [] } = cause as { partitions?: { error: unknown }[] }
  return [kafkaError(cause), ...partitions.map(({ error }) => kafkaError(error))]
}
