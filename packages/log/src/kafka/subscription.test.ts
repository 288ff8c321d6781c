/** Which partitions a subscription fetches, from a simulated broker. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Cluster, KafkaConnection } from './client.ts'
import { KafkaSubscription } from './subscription.ts'

type FetchRequest = { topics: { partitions: { partition: number; fetchOffset: string }[] }[] }

test('a partition that was released is fetched no longer', { timeout: 20_000 }, async () => {
  /** Partitions of each fetch. */
  const fetches: number[][] = []
  let onFetch = (): void => undefined
  const cluster = {
    findTopicPartitionMetadata: () => [0, 1].map((partitionId) => ({ partitionId, leader: 1 })),
    findLeaderForPartitions: () => ({ 1: [0, 1] }),
    findBroker: async () => ({
      fetch: async ({ topics: [turns] }: FetchRequest) => {
        fetches.push(turns!.partitions.map(({ partition }) => partition))
        onFetch()
        await turn()
        const partitions = turns!.partitions.map(({ partition }) => ({
          partition,
          highWatermark: '0',
          messages: Buffer.alloc(0),
        }))
        return { responses: [{ topicName: 'turns', partitions }] }
      },
    }),
  } as unknown as Cluster
  const subscription = new KafkaSubscription(
    {
      connection: {
        use: <T>(work: (of: Cluster) => Promise<T>) => work(cluster),
        close: () => undefined,
      } as unknown as KafkaConnection,
      partitions: [0, 1].map((partition) => ({ of: 'turns', topic: 'turns', partition, next: 0 })),
      decode: () => undefined,
      ends: () => Promise.resolve({ turns: { 0: 0, 1: 0 } }),
      commit: () => Promise.resolve(),
      missing: () => assert.fail('nothing is missing at the start'),
      logLine: () => undefined,
    },
    { topics: ['turns'], group: 'g', from: 'start', byPartition: 'turns', handle: () => undefined },
  )
  /** Resolves with the partitions of the last of so many further fetches. */
  const fetched = (count: number): Promise<number[] | undefined> =>
    new Promise((resolve) => {
      const last = fetches.length + count
      onFetch = () => {
        if (fetches.length >= last) resolve(fetches.at(-1))
      }
    })
  await subscription.take(0, () => 0)
  await subscription.take(1, () => 0)
  assert.deepEqual(await fetched(3), [0, 1])
  subscription.release(0)
  assert.deepEqual(await fetched(5), [1])
  await subscription.take(0, () => 0)
  assert.deepEqual(await fetched(5), [1, 0])
  await subscription.stop()
})
