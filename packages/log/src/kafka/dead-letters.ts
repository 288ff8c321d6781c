/**
 * The topics `dlq.<topic>`: copies of records that no build can read, with position and reason. The record stays on its
 * topic and readers skip it. A process writes each copy once; two processes that read the record at the same time may
 * both write it, as may one that reads a record again after it wrote many others.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { KafkaRecord, KafkaConnection } from './client.ts'
import { CUT_BYTES, deadLetterCopy } from './dead-letter-copy.ts'
import { MOST_POSITIONS, Positions } from './dead-letter-positions.ts'
import { fetchToEnd, type Use } from './fetch.ts'
import type { Producer } from './producer.ts'
import type { RecordCodecParts } from './record-codec.ts'
import { withRetries } from './retry.ts'
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

/**
 * The offsets by partition of the dead letters of a topic below offset `next` of its topic of dead letters. `scannedAt`:
 * the start of the last scan, by `performance.now()`.
 */
type Origins = { known: Positions; next: number; scannedAt: number }

export class DeadLetters {
  readonly #connection: KafkaConnection
  readonly #producer: Producer
  readonly #nameOf: (topic: Topic) => string
  readonly #origins = new Map<Topic, Origins>()
  /** The latest read of the positions of each topic. */
  readonly #reading = new Map<Topic, Promise<unknown>>()

  readonly #most: number

  /** `most`: positions held for each partition of a topic. */
  constructor(
    connection: KafkaConnection,
    producer: Producer,
    nameOf: (topic: Topic) => string,
    most: number = MOST_POSITIONS,
  ) {
    this.#connection = connection
    this.#producer = producer
    this.#nameOf = nameOf
    this.#most = most
  }

  /** Number of positions held, by topic. */
  known(): ReadonlyMap<Topic, number> {
    return new Map([...this.#origins].map(([topic, { known }]) => [topic, known.size]))
  }

  /**
   * Whether the record is among the dead letters of `maxAgeMs` ago or later. Reads those added since the last scan
   * unless the record is known or that scan is not older; reads all if the position may be one that is not held.
   */
  async has(topic: Topic, partition: number, offset: number, maxAgeMs = 0): Promise<boolean> {
    const { known, scannedAt } = this.#originsOf(topic)
    if (known.has(partition, offset)) return true
    if (performance.now() - scannedAt >= maxAgeMs && (await this.#readOn(topic)).has(partition, offset)) return true
    return known.mayBeDropped(partition, offset) && (await this.#find(topic, partition, offset))
  }

  async #find(topic: Topic, partition: number, offset: number): Promise<boolean> {
    for await (const { records } of this.#pages(topic, 0, (work) => this.#connection.use(work)))
      for (const record of records) {
        const letter = deadLetterOf(topic, record)
        if (letter.partition === partition && letter.offset === offset) return true
      }
    return false
  }

  #originsOf(topic: Topic): Origins {
    const origins = this.#origins.get(topic) ?? { known: new Positions(this.#most), next: 0, scannedAt: -Infinity }
    this.#origins.set(topic, origins)
    return origins
  }

  /** Reads the positions from where the last read ended; reads of one topic do not overlap. */
  #readOn(topic: Topic): Promise<Positions> {
    const origins = this.#originsOf(topic)
    const before = this.#reading.get(topic) ?? Promise.resolve()
    const scan = async (): Promise<Positions> => {
      const began = performance.now()
      for await (const { records, next } of this.#pages(topic, origins.next, (work) => this.#connection.use(work))) {
        for (const record of records) {
          const { partition, offset } = deadLetterOf(topic, record)
          origins.known.add(partition, offset)
        }
        origins.next = next
      }
      origins.scannedAt = began
      return origins.known
    }
    const reading = before.catch(() => undefined).then(scan)
    this.#reading.set(topic, reading)
    return reading
  }

  /**
   * Adds a record unless it is known to be there; durable when it resolves. A record that Kafka rejects as a whole is copied with a
   * cut key and value. Throws `bad_record` if Kafka rejects that as well.
   */
  async add(topic: Topic, partition: number, record: KafkaRecord, reason: string): Promise<void> {
    const offset = Number(record.offset)
    if ((await this.#readOn(topic)).has(partition, offset)) return
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
    this.#originsOf(topic).known.add(partition, offset)
  }

  /**
   * The dead letters of a topic as of this call. Of several copies of a record only the first is returned, unless as
   * many others of its partition as are held in memory stand between them.
   */
  async *read(topic: Topic, use: Use): AsyncGenerator<DeadLetter> {
    const found = new Positions(this.#most)
    for await (const { records } of this.#pages(topic, 0, use)) {
      for (const record of records) {
        const letter = deadLetterOf(topic, record)
        if (found.add(letter.partition, letter.offset)) yield letter
      }
    }
  }

  /** The records of each fetch, from offset `from` of the topic of dead letters to its end. */
  #pages(topic: Topic, from: number, use: Use): AsyncGenerator<{ records: readonly KafkaRecord[]; next: number }> {
    return fetchToEnd(use, { topic: this.#nameOf(topic), partition: 0 }, from, LIMITS)
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

type Report = (line: string) => void

/** Both are tried again while Kafka cannot be reached: additions without limit, searches for `retryMs`. */
export const retriedDeadLetters = (
  deadLetters: DeadLetters,
  retryMs: number,
  report: Report,
): Pick<RecordCodecParts, 'deadLetter' | 'isDeadLetter'> => ({
  deadLetter: (topic, partition, record, reason, signal) =>
    withRetries(
      'writing a dead letter',
      () => deadLetters.add(topic, partition, record, reason),
      Infinity,
      signal,
      report,
    ),
  isDeadLetter: (topic, partition, { offset }, maxAgeMs, signal) =>
    withRetries(
      'reading dead letters',
      () => deadLetters.has(topic, partition, Number(offset), maxAgeMs),
      retryMs,
      signal,
      report,
    ),
})
