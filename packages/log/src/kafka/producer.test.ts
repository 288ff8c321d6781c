/**
 * The producer with a simulated cluster and random faults: lost requests, lost responses, partitions without a leader or
 * with too few replicas, and reads that fence appends. test/int/faults.* test it with real brokers.
 */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'node:test'
import { NoLeader, type Cluster, type KafkaConnection } from './client.ts'
import { Producer } from './producer.ts'

const require = createRequire(import.meta.url)
const Decoder = require('kafkajs/src/protocol/decoder.js') as new (bytes: Buffer) => object
const decodeBatch = require('kafkajs/src/protocol/recordBatch/v0/decoder.js') as (
  decoder: object,
) => Promise<{ firstSequence: number; records: { value: Buffer }[] }>

const { parse } = require('kafkajs/src/protocol/requests/produce/v7/response.js') as {
  parse(response: object): Promise<object>
}

/** Kafka's error codes. */
const NOT_LEADER = 6
const TOO_LARGE = 10
const TOO_FEW_REPLICAS = 19
const TOO_FEW_REPLICAS_AFTER_APPEND = 20

const random = (seed: number) => (): number => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  return seed / 2 ** 32
}

/** Two brokers with one topic `t` of four partitions. `stored`: the values of each partition. */
class Brokers {
  readonly stored: string[][] = [[], [], [], []]
  readonly leaderless = new Set<number>()
  /** Error code by partition. */
  readonly refusing = new Map<number, number>()
  readonly #answers = new Map<string, number>()
  readonly #next = [0, 0, 0, 0]
  readonly #chance: () => number
  faults = 0

  constructor(chance: () => number) {
    this.#chance = chance
  }

  readonly connection = {
    use: async <T>(work: (cluster: Cluster) => Promise<T>): Promise<T> => {
      await turn()
      return work(this.#cluster as unknown as Cluster)
    },
    close: () => undefined,
  } as unknown as KafkaConnection

  readonly #cluster = {
    refreshMetadata: () => turn(),
    findTopicPartitionMetadata: () =>
      [0, 1, 2, 3].map((partitionId) => ({ partitionId, leader: this.#leader(partitionId) })),
    findLeaderForPartitions: (_: string, [partition]: [number]) => ({ [String(this.#leader(partition))]: [partition] }),
    findControllerBroker: async () => ({ initProducerId: async () => ({ producerId: '1', producerEpoch: 0 }) }),
    findBroker: async () => ({
      lookupRequest: () => () => ({ request: { apiVersion: 7 }, response: { parse } }),
      connectionPool: {
        send: async (protocol: {
          request: { encode(): Promise<{ buf: Buffer }> }
          response: { parse(response: object): object }
        }) => protocol.response.parse(await this.#produce((await protocol.request.encode()).buf)),
      },
    }),
  }

  #leader(partition: number): number {
    return this.leaderless.has(partition) ? -1 : 1 + (partition % 2)
  }

  async #produce(body: Buffer): Promise<object> {
    await turn()
    if (this.#fails()) throw new Error('the request is lost')
    const partitions: { partition: number; errorCode: number; baseOffset: string }[] = []
    for (let at = 12 + 2 + 1 + 4; at < body.length;) {
      const [partition, size] = [body.readInt32BE(at), body.readInt32BE(at + 4)]
      const { firstSequence, records } = await decodeBatch(new Decoder(body.subarray(at + 8, at + 8 + size)))
      at += 8 + size
      if (this.leaderless.has(partition)) throw new NoLeader([{ topic: 't', partition }])
      const values = records.map(({ value }) => String(value))
      let errorCode = this.refusing.get(partition) ?? 0
      if (values.some((value) => value.startsWith('large'))) errorCode = TOO_LARGE
      const stores = errorCode === 0 || errorCode === TOO_FEW_REPLICAS_AFTER_APPEND
      const baseOffset = String(stores ? this.#store(partition, firstSequence, values) : -1)
      partitions.push({ partition, errorCode, baseOffset: errorCode === 0 ? baseOffset : '-1' })
    }
    if (this.#fails()) throw new Error('the response is lost')
    return { topics: [{ topicName: 't', partitions }] }
  }

  #store(partition: number, sequence: number, values: string[]): number {
    const name = `${partition}/${sequence}/${values.length}`
    const stored = this.#answers.get(name)
    if (stored !== undefined) return stored
    assert.equal(sequence, this.#next[partition], 'out of order sequence number')
    this.#next[partition]! += values.length
    const base = this.stored[partition]!.length
    this.stored[partition]!.push(...values)
    this.#answers.set(name, base)
    return base
  }

  #fails(): boolean {
    const fails = this.#chance() < 0.2
    this.faults += Number(fails)
    return fails
  }
}

test(
  'each record is stored once and in order; a partition without a leader does not block the others: 8 schedules',
  { timeout: 120_000 },
  async () => {
    let faults = 0
    for (let seed = 1; seed <= 8; seed++) {
      const chance = random(seed)
      const brokers = new Brokers(chance)
      const producer = new Producer(brokers.connection, { records: 10_000, bytes: 1 << 30 }, () => undefined)
      const expected: string[][] = [[], [], [], []]
      const sent: Promise<void>[] = []
      for (let i = 0; i < 120; i++) {
        if (chance() < 0.1) brokers.leaderless.add(Math.floor(4 * chance()))
        if (chance() < 0.1) brokers.leaderless.delete(Math.floor(4 * chance()))
        const codes = [NOT_LEADER, TOO_FEW_REPLICAS, TOO_FEW_REPLICAS_AFTER_APPEND]
        if (chance() < 0.1) brokers.refusing.set(Math.floor(4 * chance()), codes[Math.floor(3 * chance())]!)
        if (chance() < 0.15) brokers.refusing.delete(Math.floor(4 * chance()))
        if (chance() < 0.05) {
          const large = { key: null, value: Buffer.from(`large ${i}`), timestamp: 1 }
          const partition = Math.floor(4 * chance())
          sent.push(assert.rejects(producer.send([{ topic: 't', partition, message: large }]), { code: 'bad_record' }))
        }
        if (chance() < 0.1) {
          const partition = Math.floor(4 * chance())
          const length = brokers.stored[partition]!.length + expected[partition]!.length
          producer.fence(
            [{ topic: 't', partition }],
            turn().then(() => assert.ok(brokers.stored[partition]!.length <= length)),
          )
        }
        const partition = Math.floor(4 * chance())
        const values = Array.from({ length: 1 + Math.floor(3 * chance()) }, (_, j) => `${i}.${j}`)
        const from = expected[partition]!.push(...values) - values.length
        const records = values.map((value) => ({
          topic: 't',
          partition,
          message: { key: null, value: Buffer.from(value), timestamp: 1 },
        }))
        sent.push(
          producer.send(records).then((offsets) =>
            assert.deepEqual(
              offsets,
              values.map((_, j) => from + j),
            ),
          ),
        )
        if (chance() < 0.7) await turn()
      }
      brokers.leaderless.clear()
      brokers.refusing.clear()
      await Promise.all(sent)
      assert.deepEqual(brokers.stored, expected, `seed ${seed}`)
      await producer.close(1000)
      faults += brokers.faults
    }
    assert.ok(faults > 20, `${faults} faults`)
  },
)

test(
  'a partition with too few replicas blocks no other, and a record that is too large costs itself alone',
  { timeout: 20_000 },
  async () => {
    const brokers = new Brokers(() => 1)
    const lines: string[] = []
    const producer = new Producer(brokers.connection, { records: 100, bytes: 1 << 20 }, (line) => lines.push(line))
    const send = (partition: number, ...values: string[]) =>
      producer.send(
        values.map((value) => ({
          topic: 't',
          partition,
          message: { key: null, value: Buffer.from(value), timestamp: 1 },
        })),
      )
    brokers.refusing.set(0, TOO_FEW_REPLICAS)
    const waiting = [send(0, 'a'), send(2, 'with a, same leader'), send(0, 'b')]
    await waiting[1]
    for (let i = 0; i < 20; i++) await send(1 + (i % 3), `${i}`)
    assert.deepEqual(brokers.stored[0], [])
    assert.equal(lines.length, 1)
    assert.match(lines[0]!, /^t 0: .*replicas.*; appends to it wait, other partitions are written$/)
    brokers.refusing.set(0, TOO_FEW_REPLICAS_AFTER_APPEND)
    await assert.rejects(send(1, 'large'), { code: 'bad_record' })
    await Promise.all([assert.rejects(send(3, 'x', 'large', 'y'), { code: 'bad_record' }), send(2, 'z')])
    brokers.refusing.clear()
    assert.deepEqual(await Promise.all(waiting), [[0], [0], [1]])
    assert.deepEqual(brokers.stored[0], ['a', 'b'])
    await producer.close(1000)
  },
)

test(
  'while a partition has no leader the others are written; closing rejects its waiting records',
  { timeout: 20_000 },
  async () => {
    const brokers = new Brokers(() => 1)
    const producer = new Producer(brokers.connection, { records: 100, bytes: 1 << 20 }, () => undefined)
    const send = (partition: number, value: string) =>
      producer.send([{ topic: 't', partition, message: { key: null, value: Buffer.from(value), timestamp: 1 } }])
    brokers.leaderless.add(0)
    const waiting = send(0, 'a')
    const refused = assert.rejects(waiting, { code: 'log_unavailable' })
    for (let i = 0; i < 20; i++) await send(1 + (i % 3), `${i}`)
    assert.deepEqual(brokers.stored[0], [])
    assert.equal(brokers.stored.flat().length, 20)
    const reading = Promise.withResolvers<void>()
    producer.fence([{ topic: 't', partition: 1 }], reading.promise)
    const fenced = send(1, 'fenced')
    await send(2, 'free')
    assert.equal(brokers.stored[1]!.includes('fenced'), false)
    reading.resolve()
    await fenced
    await producer.close(100)
    await refused
  },
)
