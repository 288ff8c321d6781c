/** Batches of other programs that are small on Kafka and large in memory, from a simulated broker. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { batchBytes, type BatchOptions } from '../../../../test/kit/event-log/record-set.ts'
import type { Cluster, KafkaConnection } from './client.ts'
import { fetchFrom } from './fetch.ts'
import { KafkaSubscription } from './subscription.ts'

/** A batch with one record, whose value has `size` zeros. */
const batchOf = (offset: number, size: number, codec: BatchOptions['codec']): Buffer =>
  batchBytes(offset, [{ key: Buffer.from('k'), value: Buffer.alloc(size) }], { codec })

type FetchRequest = {
  topics: { topic: string; partitions: { partition: number; fetchOffset: string; maxBytes: number }[] }[]
}

/** A broker of the topic `turns`; `stored`: the batches of each partition, one record each. */
const clusterOf = (stored: readonly Buffer[][]): Cluster =>
  ({
    findTopicPartitionMetadata: () => stored.map((_, partitionId) => ({ partitionId, leader: 1 })),
    findLeaderForPartitions: () => ({ 1: stored.map((_, partition) => partition) }),
    findBroker: async () => ({
      fetchBatches: async ({ topics: [turns] }: FetchRequest) => {
        await turn()
        const partitions: object[] = []
        for (const { partition, fetchOffset, maxBytes } of turns!.partitions) {
          const of = stored[partition]!
          const from = Number(fetchOffset)
          const batches = Buffer.concat(of.slice(from, maxBytes === 1 ? from + 1 : undefined))
          partitions.push({ partition, highWatermark: String(of.length), messages: batches })
        }
        return { responses: [{ topicName: 'turns', partitions }] }
      },
    }),
  }) as unknown as Cluster

const MIB = 1 << 20

for (const codec of ['gzip', 'zstd'] as const) {
  test(
    `a ${codec} batch of more than 64 MiB ends a subscription with its position; no attempt is repeated`,
    { timeout: 60_000 },
    async () => {
      const stored = [
        [batchOf(0, 1, 'none')],
        [batchOf(0, 1, codec), batchOf(1, 1, 'none'), batchOf(2, 65 * MIB, codec)],
      ]
      const cluster = clusterOf(stored)
      const lines: string[] = []
      const subscription: KafkaSubscription = new KafkaSubscription(
        {
          connection: {
            use: <T>(work: (cluster: Cluster) => Promise<T>) => work(cluster),
            close: () => undefined,
          } as unknown as KafkaConnection,
          partitions: [0, 1].map((partition) => ({ of: 'turns', topic: 'turns', partition, next: 0 })),
          decode: (_, __, { value }) => {
            if (value!.length > 64 * MIB) void subscription.stop()
            return undefined
          },
          ends: () => Promise.resolve({ turns: { 0: 1, 1: 3 } }),
          commit: () => Promise.resolve(),
          missing: () => assert.fail('nothing is missing at the start'),
          logLine: (line) => void lines.push(line),
        },
        { topics: ['turns'], group: 'g', from: 'start', handle: () => Promise.resolve() },
      )
      await assert.rejects(subscription.done, {
        code: 'batch_too_large',
        details: { topic: 'turns', partition: 1, offset: 2 },
      })
      assert.deepEqual(lines, [])
    },
  )

  test(`${codec} batches of more than 64 MiB together are read in several fetches`, { timeout: 60_000 }, async () => {
    const cluster = clusterOf([Array.from({ length: 5 }, (_, offset) => batchOf(offset, 25 * MIB, codec))])
    const pages: number[][] = []
    for (let offset = 0; offset < 5;) {
      const [page] = await fetchFrom(cluster, '1', [{ topic: 'turns', partition: 0, offset }], {
        maxBytes: MIB,
        maxBytesPerPartition: MIB,
        maxWaitTime: 0,
      })
      pages.push(page!.records.map((record) => Number(record.offset)))
      offset = page!.next
    }
    assert.deepEqual(pages, [[0, 1], [2, 3], [4]])
  })
}
