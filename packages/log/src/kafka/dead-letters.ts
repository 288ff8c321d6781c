/**
 * The topics `dlq.<topic>`: copies of records that no build can read, with position and reason. The record stays on its
 * topic and readers skip it. A process writes each copy once; two processes that read the record at the same time may
 * both write it.
 */
import type { Topic } from '@instar/events/flow'
import type { KafkaRecord, KafkaConnection } from './client.ts'
import { requireLeaders, EARLIEST, fetchFrom, LATEST, offsetsAt, type TopicPartition } from './fetch.ts'
import type { Producer } from './producer.ts'
import { headersOf } from './record-batch.ts'
import { schemaHeaderOf, SCHEMA_HEADER } from './schema-header.ts'

export type DeadLetter = {
  /** The position of the original record. */
  topic: Topic
  partition: number
  offset: number
  reason: string
  /** The key and value of the record. A missing value is stored as an empty one. */
  key: Uint8Array | null
  value: Uint8Array | null
}

const LIMITS = { maxBytes: 2 << 20, maxBytesPerPartition: 2 << 20, maxWaitTime: 100 }

export class DeadLetters {
  readonly #connection: KafkaConnection
  readonly #producer: Producer
  readonly #nameOf: (topic: Topic) => string
  readonly #origins = new Map<Topic, Promise<Set<string>>>()

  constructor(connection: KafkaConnection, producer: Producer, nameOf: (topic: Topic) => string) {
    this.#connection = connection
    this.#producer = producer
    this.#nameOf = nameOf
  }

  /** Whether the record is among the dead letters. Reads the topic again unless the record is cached. */
  async has(topic: Topic, partition: number, offset: string): Promise<boolean> {
    const origin = `${partition}@${offset}`
    if ((await this.#originsOf(topic)).has(origin)) return true
    this.#origins.delete(topic)
    return (await this.#originsOf(topic)).has(origin)
  }

  #originsOf(topic: Topic): Promise<Set<string>> {
    const loading = this.#origins.get(topic) ?? this.#readOrigins(topic)
    this.#origins.set(topic, loading)
    return loading.catch((cause: unknown) => {
      this.#origins.delete(topic)
      throw cause
    })
  }

  /** Adds a record unless it is there; durable when it resolves. */
  async add(topic: Topic, partition: number, record: KafkaRecord, reason: string): Promise<void> {
    const origins = await this.#originsOf(topic)
    const origin = `${partition}@${record.offset}`
    if (origins.has(origin)) return
    const schema = schemaHeaderOf(record)
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
    origins.add(origin)
  }

  /** The dead letters of a topic as of this call, each record once. */
  async read(topic: Topic): Promise<DeadLetter[]> {
    const deadLetterPartition: TopicPartition = { topic: this.#nameOf(topic), partition: 0 }
    return this.#connection.use(async (cluster) => {
      const [first, last] = await Promise.all([
        offsetsAt(cluster, [deadLetterPartition], EARLIEST),
        offsetsAt(cluster, [deadLetterPartition], LATEST),
      ])
      const found = new Map<string, DeadLetter>()
      for (let offset = first[0]!.offset; offset < last[0]!.offset;) {
        const [nodeId] = requireLeaders(cluster, [deadLetterPartition]).keys()
        const [batch] = await fetchFrom(cluster, nodeId!, [{ ...deadLetterPartition, offset }], LIMITS)
        for (const record of batch!.records) {
          const deadLetter = deadLetterOf(topic, record)
          const origin = `${deadLetter.partition}@${deadLetter.offset}`
          if (!found.has(origin)) found.set(origin, deadLetter)
        }
        offset = batch!.next
      }
      return [...found.values()]
    })
  }

  async #readOrigins(topic: Topic): Promise<Set<string>> {
    return new Set((await this.read(topic)).map(({ partition, offset }) => `${partition}@${offset}`))
  }
}

const deadLetterOf = (topic: Topic, { key, value, headers = {} }: KafkaRecord): DeadLetter => ({
  topic,
  partition: Number(headers['instar.partition']),
  offset: Number(headers['instar.offset']),
  reason: String(headers['instar.reason']),
  key,
  value,
})
