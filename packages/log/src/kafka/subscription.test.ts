/** Which partitions a subscription fetches, from a simulated broker. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Cluster, KafkaConnection } from './client.ts'
import { KafkaSubscription } from './subscription.ts'

type FetchRequest = {
  maxWaitTime: number
  topics: { partitions: { partition: number; fetchOffset: string }[] }[]
}

/** A subscription of two partitions without records, whose fetches end at once. `leader`: of the second; -1: none. */
const subscribed = (byPartition: 'turns' | undefined, onFetch: (request: FetchRequest) => void, leader = 1) => {
  const cluster = {
    findTopicPartitionMetadata: () => [1, leader].map((of, partitionId) => ({ partitionId, leader: of })),
    findLeaderForPartitions: () => ({ 1: [0, 1] }),
    findBroker: async () => ({
      fetchBatches: async (request: FetchRequest) => {
        onFetch(request)
        await turn()
        const partitions = request.topics[0]!.partitions.map(({ partition }) => ({
          partition,
          highWatermark: '0',
          messages: Buffer.alloc(0),
        }))
        return { responses: [{ topicName: 'turns', partitions }] }
      },
    }),
  } as unknown as Cluster
  return new KafkaSubscription(
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
    { topics: ['turns'], group: 'g', from: 'start', ...(byPartition ? { byPartition } : {}), handle: () => undefined },
  )
}

test('a partition that was released is fetched no longer', { timeout: 20_000 }, async () => {
  /** Partitions of each fetch. */
  const fetches: number[][] = []
  let onFetch = (): void => undefined
  const subscription = subscribed('turns', ({ topics: [turns] }) => {
    fetches.push(turns!.partitions.map(({ partition }) => partition))
    onFetch()
  })
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

for (const [what, byPartition, leader, waitMs] of [
  ['whose partitions stay', undefined, 1, 5000],
  ['by partition, of which one may be taken behind it,', 'turns', 1, 500],
  ['beside a partition that has no leader yet', undefined, -1, 500],
] as const)
  test(`a fetch of a subscription ${what} waits ${waitMs} ms for a record`, { timeout: 20_000 }, async () => {
    const asked = Promise.withResolvers<number>()
    const subscription = subscribed(byPartition, ({ maxWaitTime }) => asked.resolve(maxWaitTime), leader)
    if (byPartition) await subscription.take(0, () => 0)
    assert.equal(await asked.promise, waitMs)
    await subscription.stop()
  })
