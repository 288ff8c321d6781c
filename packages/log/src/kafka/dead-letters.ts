/**
 * The topics `dlq.<topic>`: copies of records that no build can read, with position and reason. The record stays on its
 * topic and readers skip it. A process writes each copy once; two processes that read the record at the same time may
 * both write it.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { KafkaRecord, KafkaConnection } from './client.ts'
import { CUT_BYTES, deadLetterCopy } from './dead-letter-copy.ts'
import { fetchToEnd, type TopicPartition } from './fetch.ts'
import type { Producer } from './producer.ts'
import { MAX_RECORD_BYTES } from './topics.ts'

export type DeadLetter = {
  /** The position of the original record. */
  topic: Topic
  partition: number
  offset: number
  reason: string
  /** The key and value of the record, cut if they are large. A missing value is stored as an empty one. */
  key: Uint8Array | null
  value: Uint8Array | null
  /** Of the whole value, if it was cut. `sha256`: hexadecimal. */
  cut?: { bytes: number; sha256: string }
}

const LIMITS = { maxBytes: 2 << 20, maxBytesPerPartition: 2 << 20, maxWaitTime: 100 }

/** The positions of the dead letters of a topic below offset `next` of its topic of dead letters. */
type Origins = { known: Set<string>; next: number }

export class DeadLetters {
  readonly #connection: KafkaConnection
  readonly #producer: Producer
  readonly #nameOf: (topic: Topic) => string
  readonly #origins = new Map<Topic, Origins>()
  /** The latest read of the positions of each topic. */
  readonly #reading = new Map<Topic, Promise<unknown>>()

  constructor(connection: KafkaConnection, producer: Producer, nameOf: (topic: Topic) => string) {
    this.#connection = connection
    this.#producer = producer
    this.#nameOf = nameOf
  }

  /** Whether the record is among the dead letters. Reads those added since the last call unless it is cached. */
  async has(topic: Topic, partition: number, offset: string): Promise<boolean> {
    const origin = `${partition}@${offset}`
    return this.#originsOf(topic).known.has(origin) || (await this.#readOn(topic)).has(origin)
  }

  #originsOf(topic: Topic): Origins {
    const origins = this.#origins.get(topic) ?? { known: new Set<string>(), next: 0 }
    this.#origins.set(topic, origins)
    return origins
  }

  /** Reads the positions from where the last read ended; reads of one topic do not overlap. */
  #readOn(topic: Topic): Promise<Set<string>> {
    const origins = this.#originsOf(topic)
    const before = this.#reading.get(topic) ?? Promise.resolve()
    const reading = before
      .catch(() => undefined)
      .then(() =>
        this.#scan(topic, origins.next, (letters, next) => {
          for (const { partition, offset } of letters) origins.known.add(`${partition}@${offset}`)
          origins.next = next
        }),
      )
      .then(() => origins.known)
    this.#reading.set(topic, reading)
    return reading
  }

  /**
   * Adds a record unless it is there; durable when it resolves. A record that Kafka rejects as a whole is copied with a
   * cut key and value. Throws `bad_record` if Kafka rejects that as well.
   */
  async add(topic: Topic, partition: number, record: KafkaRecord, reason: string): Promise<void> {
    const origin = `${partition}@${record.offset}`
    if (await this.has(topic, partition, record.offset)) return
    const send = (maxBytes: number): Promise<number[]> =>
      this.#producer.send([
        {
          topic: this.#nameOf(topic),
          partition: 0,
          message: deadLetterCopy({ topic, partition, reason }, record, maxBytes),
        },
      ])
    try {
      await send(MAX_RECORD_BYTES)
    } catch (cause) {
      if (!(cause instanceof InstarError && cause.code === 'bad_record')) throw cause
      await send(CUT_BYTES)
    }
    this.#originsOf(topic).known.add(origin)
  }

  /** The dead letters of a topic as of this call, each record once. */
  async read(topic: Topic): Promise<DeadLetter[]> {
    const found = new Map<string, DeadLetter>()
    await this.#scan(topic, 0, (letters) => {
      for (const letter of letters) {
        const origin = `${letter.partition}@${letter.offset}`
        if (!found.has(origin)) found.set(origin, letter)
      }
    })
    return [...found.values()]
  }

  /** Calls `onPage` with the dead letters of each fetch and the offset after it, from offset `from` to the end. */
  #scan(topic: Topic, from: number, onPage: (letters: DeadLetter[], next: number) => void): Promise<void> {
    const deadLetterPartition: TopicPartition = { topic: this.#nameOf(topic), partition: 0 }
    return this.#connection.use(async (cluster) => {
      for await (const { records, next } of fetchToEnd(cluster, deadLetterPartition, from, LIMITS))
        onPage(
          records.map((record) => deadLetterOf(topic, record)),
          next,
        )
    })
  }
}

const deadLetterOf = (topic: Topic, { key, value, headers = {} }: KafkaRecord): DeadLetter => ({
  topic,
  partition: Number(headers['instar.partition']),
  offset: Number(headers['instar.offset']),
  reason: String(headers['instar.reason']),
  key,
  value,
  ...(headers['instar.value.bytes'] === undefined
    ? {}
    : { cut: { bytes: Number(headers['instar.value.bytes']), sha256: String(headers['instar.value.sha256']) } }),
})
