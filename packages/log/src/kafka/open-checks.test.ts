/** Topics that Kafka compacts, and what compaction has left, with a simulated cluster. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TOPICS } from '@instar/events/flow'
import { partitionCounts } from '../partition.ts'
import { batchBytes } from '../../../../test/kit/event-log/record-set.ts'
import type { LogRecord, ReadOptions } from '../port.ts'
import type { Cluster, KafkaConnection } from './client.ts'
import { checkTopics } from './open-checks.ts'
import { readBounds, readPages } from './reading.ts'
import { KafkaSubscription } from './subscription.ts'
import { topicNames } from './topics.ts'

const counts = partitionCounts(Object.fromEntries(TOPICS.map((topic) => [topic, 1])))

type Topics<P> = { topics: { topic: string; partitions: P[] }[] }
type Resources = { resources: { name: string }[] }

/**
 * A broker with topics of one partition that have the records of `offsets`; those of `markers` are transaction markers.
 * `policyOf`: the cleanup.policy of a topic, or the error of a request for it.
 */
const clusterOf = (
  policyOf: (topic: string) => string | Error,
  offsets: readonly number[] = [],
  markers: readonly number[] = [],
): Cluster => {
  const end = String(Math.max(-1, ...offsets) + 1)
  const broker = {
    describeConfigs: async ({ resources }: Resources) => ({
      resources: resources.map(({ name }) => {
        const configValue = policyOf(name)
        if (configValue instanceof Error) throw configValue
        return { resourceName: name, configEntries: [{ configName: 'cleanup.policy', configValue }] }
      }),
    }),
    listOffsets: async ({ topics }: Topics<{ partition: number; timestamp: number }>) => ({
      responses: topics.map(({ topic, partitions }) => ({
        topic,
        partitions: partitions.map(({ partition, timestamp }) => ({ partition, offset: timestamp === -1 ? end : '0' })),
      })),
    }),
    fetchBatches: async ({ topics: [asked] }: Topics<{ fetchOffset: string }>) => ({
      responses: [
        {
          topicName: asked!.topic,
          partitions: [
            {
              partition: 0,
              highWatermark: end,
              messages: Buffer.concat(
                offsets
                  .filter((offset) => offset >= Number(asked!.partitions[0]!.fetchOffset))
                  .map((offset) => batchBytes(offset, [{}], { control: markers.includes(offset) })),
              ),
            },
          ],
        },
      ],
    }),
  }
  return {
    findTopicPartitionMetadata: () => [{ partitionId: 0, leader: 1 }],
    findLeaderForPartitions: () => ({ 1: [0] }),
    findControllerBroker: async () => broker,
    findBroker: async () => broker,
  } as unknown as Cluster
}

test('a topic with records or schemas that Kafka compacts is refused; one of dead letters is not', async () => {
  const names = topicNames('p.')
  const compacting = (name: string, policy: string) =>
    checkTopics(
      clusterOf((topic) => (topic === name ? policy : 'delete')),
      names,
      counts,
    )
  for (const topic of [names.of('turns'), names.of('updates'), names.schemas]) {
    for (const policy of ['compact', 'compact,delete'])
      await assert.rejects(compacting(topic, policy), { code: 'log_compacted', details: { topic, policy } })
    await compacting(topic, 'delete')
  }
  await compacting(names.deadLetters('turns'), 'compact')
})

test('a user that may not read the settings of topics opens the log; another error is thrown', async () => {
  const failing = (type: string) =>
    checkTopics(
      clusterOf(() => Object.assign(new Error(type), { type })),
      topicNames(),
      counts,
    )
  await failing('TOPIC_AUTHORIZATION_FAILED')
  await failing('CLUSTER_AUTHORIZATION_FAILED')
  await assert.rejects(failing('REQUEST_TIMED_OUT'), { message: 'REQUEST_TIMED_OUT' })
})

const recordOf = (offset: string): LogRecord => ({
  topic: 'turns',
  key: 'k',
  schema: 'TurnCaptured.v1',
  payload: new Uint8Array(),
  timestamp: 1,
  partition: 0,
  offset: Number(offset),
})
const read = async (cluster: Cluster, to?: number): Promise<number[]> => {
  const topic = { topic: 'turns', name: 'turns', count: 1 } as const
  const options = to === undefined ? {} : { to: { turns: { 0: to } } }
  const offsets: number[] = []
  for await (const page of readPages(topic, options, readBounds(cluster, topic, options), {
    request: (work) => work(cluster),
    decode: async (_, { offset }) => recordOf(offset),
    missing: () => assert.fail('nothing is missing at the start'),
  }))
    offsets.push(...page.map(({ offset }) => offset))
  return offsets
}
test('a read of what no build can decode, too, has it at its position, without key and bytes', async () => {
  const cluster = clusterOf(() => 'delete', [0, 1, 2])
  const topic = { topic: 'turns', name: 'turns', count: 1 } as const
  const found = async (options: ReadOptions): Promise<[number, boolean, boolean, string][]> => {
    const all: [number, boolean, boolean, string][] = []
    for await (const page of readPages(topic, options, readBounds(cluster, topic, options), {
      request: (work) => work(cluster),
      decode: async (_, { offset }) => (offset === '1' ? undefined : recordOf(offset)),
      missing: () => assert.fail('nothing is missing at the start'),
    }))
      for (const { offset, damaged, unreadable, key } of page)
        all.push([offset, damaged === true, unreadable === true, key])
    return all
  }
  const [first, last] = [0, 2].map((offset) => [offset, false, false, 'k'])
  assert.deepEqual(await found({}), [first, last])
  assert.deepEqual(await found({ unreadable: true }), [first, [1, true, true, ''], last])
  assert.deepEqual(await found({ unreadable: true, key: 'k' }), [first, last])
})

const missing = { code: 'log_compacted', details: { topic: 'turns', partition: 0, first: 2, next: 5 } }

test('a read and a subscription end where records are missing between others', { timeout: 20_000 }, async () => {
  const cluster = clusterOf(() => 'delete', [0, 1, 5, 6])
  await assert.rejects(read(cluster), missing)
  assert.deepEqual(await read(cluster, 2), [0, 1], 'the records before it can be read')
  const handled: number[] = []
  const subscription = new KafkaSubscription(
    {
      connection: {
        use: <T>(work: (of: Cluster) => Promise<T>) => work(cluster),
        close: () => undefined,
      } as unknown as KafkaConnection,
      partitions: [{ of: 'turns', topic: 'turns', partition: 0, next: 0 }],
      decode: (_, __, { offset }) => recordOf(offset),
      ends: () => Promise.resolve({ turns: { 0: 7 } }),
      commit: () => Promise.resolve(),
      missing: () => assert.fail('nothing is missing at the start'),
      logLine: () => undefined,
    },
    {
      topics: ['turns'],
      group: 'g',
      from: 'start',
      handle: async (records) => {
        handled.push(...records.map(({ offset }) => offset))
        if (handled.length > 3) void subscription.stop()
      },
    },
  )
  await assert.rejects(subscription.done, missing)
  assert.deepEqual(handled, [])
})

test('offsets of transaction markers are not missing', async () => {
  const cluster = clusterOf(() => 'delete', [0, 1, 2, 3, 4], [1, 3])
  assert.deepEqual(await read(cluster), [0, 2, 4])
})
