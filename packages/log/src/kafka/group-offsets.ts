/**
 * Committed offsets of consumer groups. These groups have no members; membership.ts uses other groups to divide work.
 */
import type { Cluster } from './client.ts'
import type { TopicPartition, FetchPosition } from './fetch.ts'
import { byTopic } from './fetch.ts'

/** The committed offset of each partition; 0 if the group has none. */
export const committedOffsets = async (...asked: Parameters<typeof knownOffsets>): Promise<FetchPosition[]> =>
  (await offsetsOf(...asked)).map((position) => ({ ...position, offset: Math.max(0, position.offset) }))

/** The committed offsets of the partitions that have one. */
export const knownOffsets = async (...asked: Parameters<typeof offsetsOf>): Promise<FetchPosition[]> =>
  (await offsetsOf(...asked)).filter(({ offset }) => offset >= 0)

/** −1 where nothing was committed. */
const offsetsOf = async (
  cluster: Cluster,
  groupId: string,
  topicPartitions: readonly TopicPartition[],
): Promise<FetchPosition[]> => {
  const broker = await cluster.findGroupCoordinator({ groupId })
  const { responses } = await broker.offsetFetch({
    groupId,
    topics: byTopic(topicPartitions).map(([topic, of]) => ({
      topic,
      partitions: of.map(({ partition }) => ({ partition, offset: '-1' })),
    })),
  })
  return responses.flatMap(({ topic, partitions }) =>
    partitions.map(({ partition, offset }) => ({ topic, partition, offset: Number(offset) })),
  )
}

/** Commits offsets; durable when it resolves. */
export const commitOffsets = async (
  cluster: Cluster,
  groupId: string,
  positions: readonly FetchPosition[],
): Promise<void> => {
  const broker = await cluster.findGroupCoordinator({ groupId })
  const topics = byTopic(positions).map(([topic, of]) => ({
    topic,
    partitions: of.map(({ partition, offset }) => ({ partition, offset: String(offset) })),
  }))
  await broker.offsetCommit({ groupId, groupGenerationId: -1, memberId: '', topics })
}
