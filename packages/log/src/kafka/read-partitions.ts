/** The partitions that a subscription reads, and how far. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { Offsets } from '../port.ts'
import { messageOf, type KafkaConnection } from './client.ts'
import { EARLIEST, LATEST, offsetsAt, type TopicPartition } from './fetch.ts'

export type PartitionProgress = TopicPartition & {
  of: Topic
  /** All records below this offset were handled. */
  next: number
}

/** Those of the topic `byPartition` are read once they are taken. One that is released and taken again is another entry. */
export class ReadPartitions {
  readonly #all: readonly PartitionProgress[]
  readonly #byPartition: Topic | undefined
  readonly #reading: Set<PartitionProgress>
  /** Those of `byPartition`, also before they are read. */
  readonly #taken = new Map<number, PartitionProgress>()

  constructor(all: readonly PartitionProgress[], byPartition: Topic | undefined) {
    this.#all = all
    this.#byPartition = byPartition
    this.#reading = new Set(all.filter(({ of }) => of !== byPartition))
  }

  get size(): number {
    return this.#reading.size
  }

  has(progress: PartitionProgress): boolean {
    return this.#reading.has(progress)
  }

  list(): PartitionProgress[] {
    return [...this.#reading]
  }

  /** It is read from `begin` on. Throws `internal`. */
  take(partition: number): PartitionProgress {
    const place = this.#all.find((one) => one.of === this.#byPartition && one.partition === partition)
    if (!place) throw new InstarError('internal', `partition ${partition} cannot be taken`)
    this.release(partition)
    const progress = { ...place }
    this.#taken.set(partition, progress)
    return progress
  }

  /** False: it was released meanwhile. */
  begin(progress: PartitionProgress, from: () => number): boolean {
    if (this.#taken.get(progress.partition) !== progress) return false
    progress.next = from()
    this.#reading.add(progress)
    return true
  }

  /** Whether it was read. */
  release(partition: number): boolean {
    const progress = this.#taken.get(partition)
    if (!progress) return false
    this.#taken.delete(partition)
    return this.#reading.delete(progress)
  }

  haveReached(ends: Offsets): boolean {
    return this.list().every(({ of, partition, next }) => next >= (ends[of]?.[partition] ?? 0))
  }
}

/**
 * After OFFSET_OUT_OF_RANGE: throws what `missing` gives for a position below the first offset, or `position_unknown`;
 * otherwise a replica lags and a retry helps.
 */
export const checkPositions = async (
  connection: KafkaConnection,
  partitions: readonly PartitionProgress[],
  missing: (topic: Topic, partition: number, first: number) => Promise<InstarError>,
  logLine: (line: string) => void,
): Promise<void> => {
  let bounds: [first: number, end: number][]
  try {
    bounds = await connection.use(async (cluster) => {
      const [first, end] = await Promise.all([
        offsetsAt(cluster, partitions, EARLIEST),
        offsetsAt(cluster, partitions, LATEST),
      ])
      const of = (progress: PartitionProgress, offsets: typeof first): number =>
        offsets.find(({ topic, partition }) => topic === progress.topic && partition === progress.partition)!.offset
      return partitions.map((progress) => [of(progress, first), of(progress, end)])
    })
  } catch (cause) {
    return logLine(`Kafka cannot be read (${messageOf(cause)}); retrying`)
  }
  for (const [i, progress] of partitions.entries()) {
    const [first, end] = bounds[i]!
    if (progress.next > end)
      throw new InstarError(
        'position_unknown',
        `${progress.of} ${progress.partition}@${progress.next} is not a position of this log: the partition ends at ${end}`,
        { topic: progress.of, partition: progress.partition, offset: progress.next, end },
      )
    if (progress.next < first) throw await missing(progress.of, progress.partition, first)
  }
}
