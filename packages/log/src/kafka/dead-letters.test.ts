/** Dead letters with a simulated cluster: records that cannot be copied as they are, and what is read of the topic. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { listed } from '../../../../test/kit/event-log/harness.ts'
import { batchBytes } from '../../../../test/kit/event-log/record-set.ts'
import type { Cluster, KafkaConnection, KafkaRecord } from './client.ts'
import { DeadLetters } from './dead-letters.ts'
import { Producer } from './producer.ts'
import { decodeRecordSet, fetchBudget } from './record-set.ts'
import { withRetries } from './retry.ts'

/** Kafka's code of the error. */
const MESSAGE_TOO_LARGE = 10

/** A broker with topics of one partition, which refuses batches of more than `maxBytes`. */
class Broker {
  readonly stored = new Map<string, KafkaRecord[]>()
  fetches = 0
  produced = 0
  readonly #maxBytes: number

  constructor(maxBytes = 8 << 20) {
    this.#maxBytes = maxBytes
  }

  of(topic: string): KafkaRecord[] {
    const records = this.stored.get(topic) ?? []
    this.stored.set(topic, records)
    return records
  }

  readonly connection = {
    use: <T>(work: (cluster: Cluster) => Promise<T>): Promise<T> => work(this.#cluster as unknown as Cluster),
    close: () => undefined,
  } as unknown as KafkaConnection

  readonly #cluster = {
    refreshMetadata: async () => undefined,
    findTopicPartitionMetadata: () => [{ partitionId: 0, leader: 1 }],
    findLeaderForPartitions: () => ({ 1: [0] }),
    findControllerBroker: async () => ({ initProducerId: async () => ({ producerId: '1', producerEpoch: 0 }) }),
    findBroker: async () => ({
      lookupRequest: () => () => ({ request: { apiVersion: 7 }, response: {} }),
      connectionPool: {
        send: async ({ request }: { request: { encode(): Promise<{ buf: Buffer }> } }) =>
          this.#produce((await request.encode()).buf),
      },
      listOffsets: async ({ topics }: { topics: { topic: string; partitions: { timestamp: number }[] }[] }) => ({
        responses: topics.map(({ topic, partitions }) => ({
          topic,
          partitions: partitions.map(({ timestamp }) => ({
            partition: 0,
            offset: String(timestamp === -1 ? this.of(topic).length : 0),
          })),
        })),
      }),
      fetchBatches: async ({ topics }: { topics: { topic: string; partitions: { fetchOffset: string }[] }[] }) => {
        this.fetches++
        const [{ topic, partitions }] = topics as [(typeof topics)[0]]
        const from = Number(partitions[0]!.fetchOffset)
        const messages = Buffer.concat(
          this.of(topic)
            .slice(from, from + 2)
            .map(bytesOf),
        )
        return {
          responses: [
            {
              topicName: topic,
              partitions: [{ partition: 0, highWatermark: String(this.of(topic).length), messages }],
            },
          ],
        }
      },
    }),
  }

  async #produce(body: Buffer): Promise<unknown> {
    this.produced++
    const nameBytes = body.readInt16BE(12)
    const topic = body.toString('utf8', 14, 14 + nameBytes)
    const at = 14 + nameBytes + 4
    const size = body.readInt32BE(at + 4)
    const answer = (errorCode: number, baseOffset: number) => ({
      topics: [{ topicName: topic, partitions: [{ partition: 0, errorCode, baseOffset: String(baseOffset) }] }],
    })
    if (size > this.#maxBytes) return answer(MESSAGE_TOO_LARGE, -1)
    const { records } = await decodeRecordSet(body.subarray(at + 8, at + 8 + size), 0, fetchBudget())
    const log = this.of(topic)
    const base = log.length
    log.push(...records.map((record, i) => ({ ...record, isControlRecord: false, offset: String(base + i) })))
    return answer(0, base)
  }
}

const bytesOf = ({ key, value, timestamp, offset, headers = {} }: KafkaRecord): Buffer =>
  batchBytes(Number(offset), [{ key, value, headers: Object.entries(headers) as [string, Buffer][] }], {
    baseTime: BigInt(timestamp),
  })

const record = (offset: number, over: Partial<KafkaRecord> = {}): KafkaRecord => ({
  key: Buffer.from('k'),
  value: Buffer.from('no schema id'),
  timestamp: '1',
  offset: String(offset),
  isControlRecord: false,
  headers: {},
  ...over,
})
const open = (broker: Broker, most?: number): { producer: Producer; letters: DeadLetters } => {
  const producer = new Producer(broker.connection, { records: 1000, bytes: 64 << 20 }, () => undefined)
  return { producer, letters: new DeadLetters(broker.connection, producer, (topic) => `dlq.${topic}`, most) }
}
const message = (timestamp: number, value = 'v') => ({
  topic: 'turns',
  partition: 0,
  message: { key: Buffer.from('a'), value: Buffer.from(value), timestamp },
})

test('a record of any time is copied with a time that a date has', { timeout: 20_000 }, async () => {
  const broker = new Broker()
  const { producer, letters } = open(broker)
  const times = ['9223372036854775807', '-9223372036854775808', '-1', '7']
  for (const [offset, timestamp] of times.entries()) await letters.add('turns', 0, record(offset, { timestamp }), 'why')
  const copies = broker.of('dlq.turns')
  assert.deepEqual(
    copies.map(({ timestamp }) => timestamp),
    ['8640000000000000', '0', '0', '7'],
  )
  assert.deepEqual(
    copies.map(({ headers }) => headers!['instar.timestamp']?.toString()),
    [times[0], times[1], times[2], undefined],
  )
  await producer.close(1000)
})

test('a record that cannot be encoded is rejected alone, and later ones are written', { timeout: 20_000 }, async () => {
  const broker = new Broker()
  const { producer } = open(broker)
  const before = producer.send([message(1, 'before')])
  const bad = producer.send([message(2 ** 63)])
  const after = producer.send([message(1, 'after')])
  await assert.rejects(bad, { code: 'bad_record', message: /cannot be encoded/ })
  await Promise.all([before, after])
  assert.deepEqual(
    broker.of('turns').map(({ value }) => String(value)),
    ['before', 'after'],
  )
  await producer.close(1000)
})

for (const [what, maxBytes, size] of [
  ['larger than any record of the log', 8 << 20, 9 << 20],
  ['larger than its topic of dead letters accepts', 1 << 20, 2 << 20],
] as const) {
  test(`a record ${what} is copied in part, with length and SHA-256`, { timeout: 20_000 }, async () => {
    const broker = new Broker(maxBytes)
    const { producer, letters } = open(broker)
    const value = Buffer.alloc(size, 'x')
    const key = Buffer.alloc(70_000, 'k')
    await letters.add('turns', 0, record(5, { key, value }), 'the value does not start with a schema id')
    const [letter, ...others] = await listed(letters.read('turns', broker.connection.use))
    assert.equal(others.length, 0)
    assert.deepEqual([letter!.partition, letter!.offset, letter!.key!.length], [0, 5, 1024])
    assert.equal(letter!.value!.length, (64 << 10) - 1024)
    assert.deepEqual(letter!.cut, { bytes: size, sha256: createHash('sha256').update(value).digest('hex') })
    assert.equal(Number(broker.of('dlq.turns')[0]!.headers!['instar.key.bytes']), 70_000)
    await producer.close(1000)
  })
}

test('dead letters are looked up in those added since, and kept without values', { timeout: 20_000 }, async () => {
  const broker = new Broker()
  const { producer, letters } = open(broker)
  const { producer: otherProducer, letters: other } = open(broker)
  for (let offset = 0; offset < 6; offset++) await other.add('turns', 0, record(offset), 'why')
  broker.fetches = 0
  assert.equal(await letters.has('turns', 0, 99), false)
  assert.equal(broker.fetches, 3)
  for (let i = 0; i < 5; i++) assert.equal(await letters.has('turns', 0, 99), false)
  assert.equal(broker.fetches, 3, 'nothing was added')
  await other.add('turns', 0, record(99), 'why')
  broker.fetches = 0
  assert.equal(await letters.has('turns', 0, 99, 60_000), false, 'as of the last look')
  assert.equal(broker.fetches, 0)
  assert.equal(await letters.has('turns', 0, 99), true)
  assert.equal(broker.fetches, 1)
  await producer.close(1000)
  await otherProducer.close(1000)
})

test(
  'positions of dead letters have a limit, beyond which a record is found by reading',
  { timeout: 20_000 },
  async () => {
    const broker = new Broker()
    const { producer, letters } = open(broker, 4)
    for (let offset = 0; offset < 6; offset++) await letters.add('turns', 0, record(offset), 'why')
    await letters.add('turns', 1, record(0), 'why')
    assert.deepEqual([...letters.known()], [['turns', 5]])
    assert.equal(await letters.has('turns', 1, 1), false)
    broker.fetches = 0
    for (const offset of [5, 2]) assert.equal(await letters.has('turns', 0, offset), true)
    assert.equal(broker.fetches, 0, 'the latest four are in memory')
    assert.equal(await letters.has('turns', 0, 9), false)
    assert.equal(broker.fetches, 0, 'only earlier ones are not in memory')
    assert.equal(await letters.has('turns', 0, 1), true)
    assert.equal(broker.fetches, 1)
    assert.equal(broker.of('dlq.turns').length, 7)
    await letters.add('turns', 0, record(5), 'why')
    assert.equal(broker.of('dlq.turns').length, 7)
    assert.equal((await listed(letters.read('turns', broker.connection.use))).length, 7)
    await producer.close(1000)
  },
)

test('a retry that waits for Kafka says so once, and that it works again', { timeout: 20_000 }, async () => {
  const lines: string[] = []
  let failures = 2
  const work = async (): Promise<string> => {
    if (failures-- > 0) throw new Error('no leader')
    return 'done'
  }
  const signal = new AbortController().signal
  assert.equal(await withRetries('writing a dead letter', work, Infinity, signal, (line) => lines.push(line)), 'done')
  assert.deepEqual(lines, [
    'Kafka: writing a dead letter fails (no leader); retrying',
    'Kafka: writing a dead letter works again',
  ])
})
