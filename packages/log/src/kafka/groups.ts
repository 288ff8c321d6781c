/** What groups committed, asked and set at the coordinator directly: nobody joins these groups. Work is divided in others (membership.ts). */
import type { Cluster } from './client.ts'
import type { TopicPartition, FetchPosition } from './fetch.ts'
import { byTopic } from './fetch.ts'

/** 0 where the group never committed. */
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

/** On the quorum when it resolves. */
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
