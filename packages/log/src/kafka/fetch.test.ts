/** Fetches that return nothing although the log has what is asked for. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { batchBytes } from '../../../../test/kit/event-log/record-set.ts'
import type { Cluster } from './client.ts'
import { fetchRecord, fetchToEnd } from './fetch.ts'

const NOTHING = Buffer.alloc(0)
const KEYS = ['a', 'b', 'c']
const BATCH = batchBytes(
  0,
  KEYS.map((key) => ({ key: Buffer.from(key), value: Buffer.from('v') })),
)
const PARTITION = { topic: 'turns', partition: 0 }

/**
 * A broker that gives one answer after the other, then the last again: `null`, that of a throttled client; else messages.
 * `end`: of its partition; `highWatermark`: as fetches without a record give it.
 */
const brokerOf = (answers: readonly (Buffer | null)[], end = KEYS.length, highWatermark = end) => {
  const broker = { fetches: 0 }
  const cluster = {
    findLeaderForPartitions: () => ({ 1: [0] }),
    findBroker: async () => ({
      listOffsets: async ({ topics: [asked] }: { topics: { partitions: { timestamp: number }[] }[] }) => ({
        responses: [
          {
            topic: 'turns',
            partitions: [{ partition: 0, offset: String(asked!.partitions[0]!.timestamp === -2 ? 0 : end) }],
          },
        ],
      }),
      fetchBatches: async () => {
        const messages = answers[Math.min(broker.fetches++, answers.length - 1)]!
        return {
          responses:
            messages === null
              ? []
              : [
                  {
                    topicName: 'turns',
                    partitions: [
                      { partition: 0, highWatermark: String(messages.length > 0 ? end : highWatermark), messages },
                    ],
                  },
                ],
        }
      },
    }),
  } as unknown as Cluster
  return Object.assign(broker, { cluster })
}

for (const [what, answer] of [
  ['throttled', null],
  ['without a record after a change of the leader', NOTHING],
] as const)
  test(`a record is read after a fetch that is ${what}`, async () => {
    const broker = brokerOf([answer, answer, BATCH])
    const record = await fetchRecord(broker.cluster, { ...PARTITION, offset: 1 })
    assert.equal(record?.key?.toString(), 'b')
    assert.equal(broker.fetches, 3)
  })

test('a record is read from a new leader that does not know yet that it is acknowledged', async () => {
  const broker = brokerOf([NOTHING, NOTHING, BATCH], KEYS.length, 1)
  const record = await fetchRecord(broker.cluster, { ...PARTITION, offset: 2 })
  assert.equal(record?.key?.toString(), 'c')
  assert.equal(broker.fetches, 3)
})

test('fetches that never return a record below the end are an unavailable log, not a record that is not there', async () => {
  for (const answer of [null, NOTHING])
    await assert.rejects(fetchRecord(brokerOf([answer]).cluster, { ...PARTITION, offset: 1 }, 0), {
      code: 'log_unavailable',
    })
})

test('at the end of a partition there is no record', async () => {
  const broker = brokerOf([NOTHING])
  assert.equal(await fetchRecord(broker.cluster, { ...PARTITION, offset: KEYS.length }), undefined)
  assert.equal(broker.fetches, 1)
})

test('a partition is read to its end over fetches that are throttled', async () => {
  const { cluster } = brokerOf([null, BATCH])
  const keys: (string | undefined)[] = []
  for await (const { records } of fetchToEnd((work) => work(cluster), PARTITION, 0, {
    maxBytes: 1,
    maxBytesPerPartition: 1,
    maxWaitTime: 0,
  }))
    keys.push(...records.map(({ key }) => key?.toString()))
  assert.deepEqual(keys, KEYS)
})
