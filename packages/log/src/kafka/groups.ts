/**
 * Reads and writes committed offsets at the group coordinator. These groups have no members; membership.ts uses
 * others to divide work.
 */
import type { Cluster } from './client.ts'
import type { TopicPartition, FetchPosition } from './fetch.ts'
import { byTopic } from './fetch.ts'

/** The committed offset, 0 for a group that never committed. */
export const committedOf = async (
  cluster: Cluster,
  groupId: string,
  places: readonly TopicPartition[],
): Promise<FetchPosition[]> => {
  const broker = await cluster.findGroupCoordinator({ groupId })
  const { responses } = await broker.offsetFetch({
    groupId,
    topics: byTopic(places).map(([topic, of]) => ({
      topic,
      partitions: of.map(({ partition }) => ({ partition, offset: '-1' })),
    })),
  })
  return responses.flatMap(({ topic, partitions }) =>
    partitions.map(({ partition, offset }) => ({ topic, partition, offset: Math.max(0, Number(offset)) })),
  )
}

/** Durable on the quorum when it resolves. */
export const commitTo = async (
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
