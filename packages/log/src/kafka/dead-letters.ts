/**
 * `dlq.<topic>`: copies of records that no build can read, with position and reason. The record stays on its topic
 * and readers skip it. Each is written once per process; two processes that find it at the same time may both write
 * it.
 */
import type { Topic } from '@instar/events/flow'
import type { Fetchable, KafkaConnection } from './client.ts'
import { byLeader, EARLIEST, fetchFrom, LATEST, offsetsAt, type TopicPartition } from './fetch.ts'
import type { Producer } from './producer.ts'
import { headersOf } from './record-batch.ts'
import { headerOf, SCHEMA_HEADER } from './schema-header.ts'

export type DeadLetter = {
  /** Where the record stands. */
  topic: Topic
  partition: number
  offset: number
  reason: string
  /** The record's own key and value, whatever they are; no value is stored as an empty one. */
  key: Uint8Array | null
  value: Uint8Array | null
}

const LIMITS = { maxBytes: 2 << 20, maxBytesPerPartition: 2 << 20, maxWaitTime: 100 }

export class DeadLetters {
  readonly #connection: KafkaConnection
  readonly #producer: Producer
  readonly #nameOf: (topic: Topic) => string
  readonly #known = new Map<Topic, Promise<Set<string>>>()

  constructor(connection: KafkaConnection, producer: Producer, nameOf: (topic: Topic) => string) {
    this.#connection = connection
    this.#producer = producer
    this.#nameOf = nameOf
  }

  /** True when the record is among the dead letters. Reads the topic once per origin and caches true. */
  async holds(topic: Topic, partition: number, offset: string): Promise<boolean> {
    const origin = `${partition}@${offset}`
    if ((await this.#knownOf(topic)).has(origin)) return true
    this.#known.delete(topic)
    return (await this.#knownOf(topic)).has(origin)
  }

  #knownOf(topic: Topic): Promise<Set<string>> {
    const loading = this.#known.get(topic) ?? this.#origins(topic)
    this.#known.set(topic, loading)
    return loading.catch((cause: unknown) => {
      this.#known.delete(topic)
      throw cause
    })
  }

  /** Durable when it resolves. */
  async put(topic: Topic, partition: number, record: Fetchable, reason: string): Promise<void> {
    const known = await this.#knownOf(topic)
    const origin = `${partition}@${record.offset}`
    if (known.has(origin)) return
    const schema = headerOf(record)
    await this.#producer.send([
      {
        topic: this.#nameOf(topic),
        partition: 0,
        message: {
          key: record.key,
          value: record.value ?? Buffer.alloc(0),
          timestamp: Number(record.timestamp),
          headers: headersOf({
            'instar.topic': topic,
            'instar.partition': String(partition),
            'instar.offset': record.offset,
            'instar.reason': reason,
            ...(schema === undefined ? {} : { [SCHEMA_HEADER]: schema }),
          }),
        },
      },
    ])
    known.add(origin)
  }

  /** All that are there now, each origin once. */
  async read(topic: Topic): Promise<DeadLetter[]> {
    const place: TopicPartition = { topic: this.#nameOf(topic), partition: 0 }
    return this.#connection.use(async (cluster) => {
      const [first, last] = await Promise.all([
        offsetsAt(cluster, [place], EARLIEST),
        offsetsAt(cluster, [place], LATEST),
      ])
      const letters = new Map<string, DeadLetter>()
      for (let offset = first[0]!.offset; offset < last[0]!.offset;) {
        const [nodeId] = byLeader(cluster, [place]).keys()
        const [batch] = await fetchFrom(cluster, nodeId!, [{ ...place, offset }], LIMITS)
        for (const record of batch!.records) {
          const letter = letterOf(topic, record)
          const origin = `${letter.partition}@${letter.offset}`
          if (!letters.has(origin)) letters.set(origin, letter)
        }
        offset = batch!.next
      }
      return [...letters.values()]
    })
  }

  async #origins(topic: Topic): Promise<Set<string>> {
    return new Set((await this.read(topic)).map(({ partition, offset }) => `${partition}@${offset}`))
  }
}

const letterOf = (topic: Topic, { key, value, headers = {} }: Fetchable): DeadLetter => ({
  topic,
  partition: Number(headers['instar.partition']),
  offset: Number(headers['instar.offset']),
  reason: String(headers['instar.reason']),
  key,
  value,
})
