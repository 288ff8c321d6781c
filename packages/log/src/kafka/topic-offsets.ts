/** Conversion between the log's offsets by topic and Kafka's lists of partitions. */
import type { Topic } from '@instar/events/flow'
import type { PartitionCounts } from '../partition.ts'
import type { Offsets } from '../port.ts'
import type { FetchPosition, TopicPartition } from './fetch.ts'
import type { TopicNames } from './topics.ts'

/** All partitions of the topics, by Kafka's names. */
export const allPartitions = (topics: readonly Topic[], names: TopicNames, counts: PartitionCounts): TopicPartition[] =>
  topics.flatMap((topic) =>
    Array.from({ length: counts[topic] }, (_, partition) => ({ topic: names.of(topic), partition })),
  )

export const offsetsByTopic = (
  topics: readonly Topic[],
  names: TopicNames,
  positions: readonly FetchPosition[],
): Offsets =>
  Object.fromEntries(
    topics.map((topic) => [
      topic,
      Object.fromEntries(
        positions
          .filter((position) => position.topic === names.of(topic))
          .toSorted((a, b) => a.partition - b.partition)
          .map(({ partition, offset }) => [partition, offset]),
      ),
    ]),
  )
