/** The decoder of fetched batches: the bytes that Instar and other programs write, limits, and damaged bytes. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { batchBytes, withChecksum, type SetRecord } from '../../../../test/kit/event-log/record-set.ts'
import { seeded } from '../../../../test/kit/random.ts'
import type { Cluster, KafkaRecord } from './client.ts'
import { fetchFrom } from './fetch.ts'
import { readPages } from './reading.ts'
import { encodeProduce, headersOf } from './record-batch.ts'
import { decodeRecordSet, fetchBudget, MAX_FETCHED_RECORDS, UnreadableBatch } from './record-set.ts'

const require = createRequire(import.meta.url)
const Decoder = require('kafkajs/src/protocol/decoder.js') as new (bytes: Buffer) => object
const decodeBatch = require('kafkajs/src/protocol/recordBatch/v0/decoder.js') as (
  decoder: object,
) => Promise<{ records: KafkaRecord[] }>

const decode = (bytes: Buffer, from = 0) => decodeRecordSet(bytes, from, fetchBudget())
const text = (value: string): Buffer => Buffer.from(value)
const offsetsOf = (records: readonly KafkaRecord[]): number[] => records.map(({ offset }) => Number(offset))

test('batches of Instar are decoded as they were encoded', async () => {
  const messages = [
    {
      key: text('k'),
      value: text('v'.repeat(70_000)),
      timestamp: 1_795_000_000_000,
      headers: headersOf({ 'instar.schema': 'A.v1 0' }),
    },
    { key: null, value: null, timestamp: 0 },
    { key: text(''), value: text('é'), timestamp: 5, headers: headersOf({ other: 'x' }) },
  ]
  const body = encodeProduce({
    topicData: [{ topic: 't', partitions: [{ partition: 0, firstSequence: 0, messages }] }],
    producerId: '9007199254740993',
    producerEpoch: 1,
    acks: -1,
    timeout: 1,
  })
  const { records, next, missing } = await decode(body.subarray(12 + 2 + 1 + 4 + 4 + 4))
  assert.deepEqual(
    records.map(({ key, value, timestamp, offset }) => ({ key, value, timestamp: Number(timestamp), offset })),
    messages.map(({ key, value, timestamp }, i) => ({ key, value, timestamp, offset: String(i) })),
  )
  assert.deepEqual(
    records.map(({ headers }) => headers),
    [{ 'instar.schema': text('A.v1 0') }, {}, {}],
    'only headers of Instar are kept',
  )
  assert.deepEqual([next, missing], [3, undefined])
})

test('batches of other programs are decoded as kafkajs does, with any time', async () => {
  const random = seeded(1)
  const long = (): bigint => BigInt.asIntN(64, BigInt(random.below(2 ** 52)) << BigInt(random.below(13)))
  for (let round = 0; round < 200; round++) {
    const records = Array.from({ length: 1 + random.below(5) }, (): SetRecord => ({
      key: random.chance(0.2) ? null : Buffer.alloc(random.below(200), 'k'),
      value: random.chance(0.2) ? null : Buffer.alloc(random.below(20_000), 'v'),
      timeDelta: random.chance(0.5) ? random.below(2 ** 20) - 2 ** 19 : long(),
      headers: random.chance(0.5)
        ? []
        : [
            ['instar.a', text('x')],
            ['instar.b', random.chance(0.5) ? null : text('y')],
          ],
    }))
    const bytes = batchBytes(round * 10, records, {
      baseTime: long(),
      ...(random.chance(0.2) ? { appendTime: long() } : {}),
    })
    const { records: expected } = await decodeBatch(new Decoder(bytes))
    const { records: found } = await decode(bytes, round * 10)
    assert.deepEqual(
      found.map((record) => ({ ...record, headers: { ...record.headers } })),
      expected.map(({ key, value, timestamp, offset, isControlRecord, headers }) => ({
        key,
        value,
        // Kafka's own clients wrap at 64 bits, kafkajs does not.
        timestamp: String(BigInt.asIntN(64, BigInt(timestamp))),
        offset,
        isControlRecord,
        headers,
      })),
    )
  }
})

/** A broker of the topic `turns` with one partition that has these bytes from each offset on. */
const brokerOf = (bytesFrom: (offset: number) => Buffer, end: number): Cluster =>
  ({
    findLeaderForPartitions: () => ({ 1: [0] }),
    findBroker: async () => ({
      fetchBatches: async ({ topics: [asked] }: { topics: { partitions: { fetchOffset: string }[] }[] }) => ({
        responses: [
          {
            topicName: 'turns',
            partitions: [
              {
                partition: 0,
                highWatermark: String(end),
                messages: bytesFrom(Number(asked!.partitions[0]!.fetchOffset)),
              },
            ],
          },
        ],
      }),
    }),
  }) as unknown as Cluster
const fetchOne = async (cluster: Cluster, offset: number) =>
  (
    await fetchFrom(cluster, '1', [{ topic: 'turns', partition: 0, offset }], {
      maxBytes: 1,
      maxBytesPerPartition: 1,
      maxWaitTime: 0,
    })
  )[0]!

test('batches of many records are read in fetches of limited size', { timeout: 60_000 }, async () => {
  for (const [codec, count] of [
    ['none', 130_000],
    ['gzip', 40_000],
  ] as const) {
    const bytes = batchBytes(
      0,
      Array.from({ length: count }, () => ({})),
      { codec },
    )
    const cluster = brokerOf(() => bytes, count)
    let next = 0
    for (; next < count;) {
      const fetched = await fetchOne(cluster, next)
      assert.deepEqual(
        [offsetsOf(fetched.records)[0], fetched.records.length, fetched.missing],
        [next, Math.min(MAX_FETCHED_RECORDS, count - next), undefined],
      )
      next = fetched.next
    }
    assert.equal(next, count)
  }
})

test(
  'a record with 100,000 headers is decoded in linear time; a repeated header is malformed',
  { timeout: 60_000 },
  async () => {
    const headers = Array.from({ length: 100_000 }, (_, i) => [`h${i}`, null] as const)
    const own = ['instar.schema', text('A.v1')] as const
    const { records } = await decode(
      batchBytes(0, [{ headers: [...headers, own] }, { headers: [own, own, own] }, { headers: [own] }]),
    )
    assert.deepEqual(
      records.map((record) => record.headers),
      [{ 'instar.schema': text('A.v1') }, { 'instar.schema': null }, { 'instar.schema': text('A.v1') }],
    )
  },
)

test('offsets without a record are missing: at the start, within and at the end of a batch, and a whole batch', async () => {
  const set = (...batches: Buffer[]): Buffer => Buffer.concat(batches)
  for (const [bytes, first, next, end] of [
    [set(batchBytes(3, [{}, {}])), 0, 3, 5],
    [set(batchBytes(0, [{}, { offsetDelta: 4 }])), 1, 4, 5],
    [set(batchBytes(0, [{}], { lastDelta: 3 })), 1, 4, 4],
    [set(batchBytes(0, [{}]), batchBytes(1, [], { lastDelta: 6 })), 1, 8, 8],
  ] as const) {
    const found = await decode(bytes)
    assert.deepEqual([found.missing, found.next], [{ first, next }, end])
  }
  const markers = await decode(
    set(batchBytes(0, [{}]), batchBytes(1, [{ key: text('k') }], { control: true }), batchBytes(2, [{}])),
  )
  assert.deepEqual([offsetsOf(markers.records), markers.next, markers.missing], [[0, 2], 3, undefined])
})

test('a set is read from any offset in it, and to the batch that is cut off', async () => {
  const whole = Buffer.concat([batchBytes(10, [{}, {}, {}]), batchBytes(13, [{}, {}])])
  for (let from = 10; from < 15; from++)
    assert.deepEqual(
      offsetsOf((await decode(whole, from)).records),
      [10, 11, 12, 13, 14].filter((at) => at >= from),
    )
  for (let length = 0; length < whole.length; length++) {
    const { next } = await decode(whole.subarray(0, length), 10)
    assert.equal(next, length < batchBytes(10, [{}, {}, {}]).length ? 10 : 13)
  }
})

test('a batch of which any byte has changed is damaged; what precedes it is read first', async () => {
  const good = batchBytes(0, [{ value: text('good') }])
  const batch = batchBytes(1, [{ key: text('key'), value: text('value') }, { headers: [['instar.a', null]] }])
  // The bytes before the magic are not in the checksum: offset, length and the epoch of the leader.
  for (let at = 16; at < batch.length; at++) {
    const bytes = Buffer.from(batch)
    bytes[at]! ^= 0x11
    await assert.rejects(decode(bytes, 1), { code: 'batch_damaged', offset: 1 })
    const before = await decode(Buffer.concat([good, bytes]))
    assert.deepEqual([offsetsOf(before.records), before.next], [[0], 1])
  }
  await assert.rejects(
    fetchOne(
      brokerOf(() => withChecksum(Buffer.from(batch).fill(255, 61)), 3),
      1,
    ),
    {
      code: 'batch_damaged',
      retryable: false,
      details: { topic: 'turns', partition: 0, offset: 1 },
    },
  )
  await assert.rejects(
    fetchOne(
      brokerOf(() => batchBytes(1, [{}], { codec: 'lz4' }), 2),
      1,
    ),
    {
      code: 'unsupported_codec',
      details: { topic: 'turns', partition: 0, offset: 1, codec: 'LZ4' },
    },
  )
})

test(
  'a batch with a valid checksum and any other bytes is decoded or damaged, the same from each offset',
  { timeout: 60_000 },
  async () => {
    const random = seeded(2)
    let damaged = 0
    for (let round = 0; round < 3000; round++) {
      const bytes = batchBytes(
        5,
        Array.from({ length: 4 }, () => ({
          key: text('key'),
          value: text('value'),
          headers: [['instar.a', text('b')] as const],
        })),
      )
      for (let changes = 1 + random.below(3); changes > 0; changes--)
        bytes[21 + random.below(bytes.length - 21)] = random.below(256)
      withChecksum(bytes)
      const seen: number[] = []
      try {
        for (let next = 5, before = -1; next !== before;) {
          before = next
          const set = await decode(bytes, next)
          seen.push(...offsetsOf(set.records))
          next = set.next
        }
      } catch (cause) {
        assert.ok(cause instanceof UnreadableBatch, String(cause))
        damaged++
      }
      assert.deepEqual(
        seen,
        [...new Set(seen)].sort((a, b) => a - b),
      )
    }
    assert.ok(damaged > 500 && damaged < 3000, String(damaged))
  },
)

test('a count that the bytes cannot have allocates nothing', async () => {
  const bytes = batchBytes(0, [{}], { count: 2 ** 31 - 1, lastDelta: 2 ** 31 - 2 })
  await assert.rejects(decode(bytes), { code: 'batch_damaged', message: /states 2147483647 records in 7 bytes/ })
})

test('a read of a partition of which Kafka returns nothing ends', { timeout: 60_000 }, async () => {
  const cluster = brokerOf(() => Buffer.alloc(0), 5)
  const pages = readPages(
    { topic: 'turns', name: 'turns', count: 1 },
    {},
    Promise.resolve({ starts: [0], ends: [5], first: [0] }),
    {
      request: (work) => work(cluster),
      decode: () => Promise.resolve(undefined),
      missing: () => assert.fail('nothing is missing at the start'),
      stalledMs: 100,
    },
  )
  await assert.rejects(pages.next(), { code: 'log_unavailable', message: /returns nothing of turns/ })
})
