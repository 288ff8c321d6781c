/**
 * The event log on Kafka. Values are in the registry's wire format; commits are Kafka's group commits. Every
 * subscriber reads every partition: groups store offsets and divide work.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { partitionCounts, type PartitionCounts } from '../partition.ts'
import type {
  Append,
  EventLog,
  LogRecord,
  Offsets,
  Position,
  ReadOptions,
  PartitionAssignment,
  SubscribeOptions,
  Subscription,
} from '../port.ts'
import { kafkaError, KafkaConnection, type Cluster, type Fetchable } from './client.ts'
import { DeadLetters, type DeadLetter } from './dead-letters.ts'
import { byLeader, fetchFrom, LATEST, offsetsAt, type TopicPartition } from './fetch.ts'
import { committedOf, commitTo } from './groups.ts'
import { Membership } from './membership.ts'
import { checkTopics, openSchemas } from './opening.ts'
import type { KafkaOptions } from './options.ts'
import { Producer } from './producer.ts'
import { limitsOf, placesOf, readPages } from './reading.ts'
import { Records } from './records.ts'
import type { SchemaIds } from './schemas.ts'
import { refusal } from './setup.ts'
import { KafkaSubscription } from './subscription.ts'
import { topicNames, type TopicNames } from './topics.ts'
import { patiently } from './wait.ts'

export type KafkaLog = EventLog & {
  /** Every schema on the log: name → Avro JSON. */
  schemas(): Record<string, string>
  deadLetter(position: Position, reason: string): Promise<void>
  deadLetters(topic: Topic): Promise<DeadLetter[]>
}

/**
 * Throws `partition_count_changed`, `log_truncated`, `not_set_up` when `setup` has not run, `registry_differs` when the
 * registry has other numbers than the log, or `log_unavailable` when no broker answers.
 */
export const openKafkaLog = async (options: KafkaOptions): Promise<KafkaLog> => {
  const counts = partitionCounts(options.partitions)
  const names = topicNames(options.prefix)
  const connection = new KafkaConnection(options, names.all)
  try {
    const patience = options.patience ?? PATIENCE
    const never = new AbortController().signal
    await patiently(
      'opening',
      () => connection.use((cluster) => checkTopics(cluster, names, counts)).catch(refuse),
      patience,
      never,
    )
    const ids = await patiently('reading schemas', () => openSchemas(options, names, connection), patience, never)
    return new Log(options, counts, names, ids, connection)
  } catch (cause) {
    connection.close()
    throw kafkaError(cause) === 'UNKNOWN_TOPIC_OR_PARTITION'
      ? new InstarError('not_set_up', 'Kafka does not hold the topics of the log', {}, { cause })
      : cause
  }
}

const refuse = (cause: unknown): never => {
  throw refusal(cause) ?? cause
}

const PATIENCE = 30_000
/**
 * The shortest session that brokers allow by default: a failed member's partitions move soon, and losing them by
 * mistake costs little.
 */
const SESSION = 6_000
/** Request timeout for group requests: a session has room for several tries, but a busy broker may take this long. */
const LEAST_WAIT = 1_000

class Log implements KafkaLog {
  readonly #options: KafkaOptions
  readonly #counts: PartitionCounts
  readonly #names: TopicNames
  readonly #records: Records
  readonly #ids: SchemaIds
  readonly #connection: KafkaConnection
  readonly #producer: Producer
  readonly #dead: DeadLetters
  readonly #subscriptions = new Set<Subscription>()
  readonly #shares = new Set<PartitionAssignment>()
  readonly #ending = new AbortController()
  readonly #patience: number
  #closing: Promise<void> | undefined

  constructor(
    options: KafkaOptions,
    counts: PartitionCounts,
    names: TopicNames,
    ids: SchemaIds,
    connection: KafkaConnection,
  ) {
    this.#options = options
    this.#counts = counts
    this.#names = names
    this.#connection = connection
    this.#ids = ids
    this.#patience = options.patience ?? PATIENCE
    this.#producer = new Producer(
      new KafkaConnection(options, names.all),
      { records: options.queue?.records ?? 16_384, bytes: options.queue?.bytes ?? 64 << 20 },
      (line) => options.say?.(line),
    )
    this.#dead = new DeadLetters(connection, this.#producer, names.deadLetters)
    this.#records = new Records({
      ids,
      schemas: options.schemas,
      counts,
      names,
      patience: this.#patience,
      ending: this.#ending.signal,
      putAside: (topic, partition, record, reason, signal) =>
        patiently('putting a record aside', () => this.#dead.put(topic, partition, record, reason), Infinity, signal),
      isAside: (topic, partition, { offset }, signal) =>
        patiently('looking at dead letters', () => this.#dead.holds(topic, partition, offset), this.#patience, signal),
      say: (line) => options.say?.(line),
    })
  }

  async append(records: readonly Append[]): Promise<Position[]> {
    this.#check()
    const outgoing = records.map((record) => this.#records.outgoing(record))
    const offsets = await this.#producer.send(outgoing)
    return offsets.map((offset, i) => ({ topic: records[i]!.topic, partition: outgoing[i]!.partition, offset }))
  }

  async subscribe(options: SubscribeOptions): Promise<Subscription> {
    this.#check()
    const { topics, group, from } = options
    const starts = from === 'committed' ? await this.#committed(group, topics) : from === 'start' ? {} : from
    const places = await Promise.all(
      topics.map(async (topic) => {
        const { starts: first } = await this.#ask('finding a position', (cluster) =>
          limitsOf(cluster, { topic, name: this.#names.of(topic), count: this.#counts[topic] }, { from: starts }),
        )
        return first.map((next, partition) => ({ of: topic, topic: this.#names.of(topic), partition, next }))
      }),
    )
    this.#check()
    const subscription = new KafkaSubscription(
      {
        connection: new KafkaConnection(this.#options, topics.map(this.#names.of)),
        readings: places.flat(),
        accept: (topic, partition, record, signal) => this.#records.accept(topic, partition, record, signal),
        ends: (of, signal) => patiently('finding the ends', () => this.ends(of), Infinity, signal),
        commit: (to, positions) => this.#commit(to, positions),
        say: (line) => this.#options.say?.(line),
      },
      options,
    )
    this.#subscriptions.add(subscription)
    const leave = (): void => void this.#subscriptions.delete(subscription)
    subscription.done.then(leave, leave)
    return subscription
  }

  read(topic: Topic, options: ReadOptions = {}): AsyncIterable<LogRecord[]> {
    this.#check()
    const place = { topic, name: this.#names.of(topic), count: this.#counts[topic] }
    const limits = this.#ask('finding where a read ends', (cluster) => limitsOf(cluster, place, options))
    limits.catch(() => undefined)
    this.#producer.holdBack(placesOf(place, options), limits)
    return readPages(place, options, limits, {
      ask: (work) => this.#ask('reading', work),
      accept: (partition, record) => this.#records.named(topic, partition, record),
    })
  }

  async joinGroup(group: string, topic: Topic, onChange: () => void): Promise<PartitionAssignment> {
    this.#check()
    const { session = SESSION, requestTimeout = session, ...options } = this.#options
    const share = new Membership({
      connection: new KafkaConnection(
        { ...options, requestTimeout: Math.min(requestTimeout, Math.max(LEAST_WAIT, session / 3)) },
        [this.#names.of(topic)],
      ),
      groupId: this.#groupId(`${group}.share`),
      topic: this.#names.of(topic),
      partitions: this.#counts[topic],
      session,
      onChange,
      say: (line) => options.say?.(line),
    })
    this.#shares.add(share)
    return share
  }

  async at({ topic, partition, offset }: Position): Promise<LogRecord | undefined> {
    const record = await this.#raw({ topic, partition, offset })
    return record && (await this.#records.named(topic, partition, record))
  }

  async ends(topics: readonly Topic[]): Promise<Offsets> {
    return this.#byPartition(
      topics,
      await this.#ask('finding the ends', (cluster) => offsetsAt(cluster, this.#places(topics), LATEST)),
    )
  }

  partitions(topic: Topic): number {
    return this.#counts[topic]
  }

  deadLetter(position: Position, reason: string): Promise<void> {
    return patiently(
      'putting a record aside',
      async () => {
        const record = await this.#raw(position)
        if (!record)
          throw new InstarError(
            'position_unknown',
            `${position.topic} ${position.partition}@${position.offset} holds no record`,
            { ...position },
          )
        await this.#dead.put(position.topic, position.partition, record, reason)
      },
      Infinity,
      this.#ending.signal,
    )
  }

  schemas(): Record<string, string> {
    return this.#ids.texts()
  }

  deadLetters(topic: Topic): Promise<DeadLetter[]> {
    return patiently('reading dead letters', () => this.#dead.read(topic), this.#patience, this.#ending.signal)
  }

  /** Handlers that run may still read, append and commit. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    await Promise.all([
      ...[...this.#shares].map((share) => share.leave()),
      ...[...this.#subscriptions].map((subscription) => subscription.stop()),
    ])
    await this.#producer.close(this.#patience)
    this.#ending.abort()
    this.#connection.close()
  }

  async #raw({ topic, partition, offset }: Position): Promise<Fetchable | undefined> {
    if (!(partition >= 0 && partition < this.#counts[topic]) || offset < 0) return undefined
    const place = { topic: this.#names.of(topic), partition, offset }
    return this.#ask('reading a record', async (cluster) => {
      const [nodeId] = byLeader(cluster, [place]).keys()
      try {
        const [batch] = await fetchFrom(cluster, nodeId!, [place], {
          maxBytes: 1,
          maxBytesPerPartition: 1,
          maxWaitTime: 0,
        })
        return batch?.records.find((record) => Number(record.offset) === offset)
      } catch (cause) {
        if (kafkaError(cause) === 'OFFSET_OUT_OF_RANGE') return undefined
        throw cause
      }
    })
  }

  async #committed(group: string, topics: readonly Topic[]): Promise<Offsets> {
    const next = await this.#ask('reading what a group committed', (cluster) =>
      committedOf(cluster, this.#groupId(group), this.#places(topics)),
    )
    return this.#byPartition(topics, next)
  }

  async #commit(group: string, positions: readonly Position[]): Promise<void> {
    if (positions.length === 0) return
    const named = positions.map(({ topic, partition, offset }) => ({ topic: this.#names.of(topic), partition, offset }))
    await this.#ask('committing', (cluster) => commitTo(cluster, this.#groupId(group), named))
  }

  #places(topics: readonly Topic[]): TopicPartition[] {
    return topics.flatMap((topic) =>
      Array.from({ length: this.#counts[topic] }, (_, partition) => ({ topic: this.#names.of(topic), partition })),
    )
  }

  #byPartition(topics: readonly Topic[], offsets: readonly (TopicPartition & { offset: number })[]): Offsets {
    return Object.fromEntries(
      topics.map((topic) => [
        topic,
        Object.fromEntries(
          offsets
            .filter((one) => one.topic === this.#names.of(topic))
            .toSorted((a, b) => a.partition - b.partition)
            .map(({ partition, offset }) => [partition, offset]),
        ),
      ]),
    )
  }

  #groupId(group: string): string {
    return `${this.#options.prefix ?? ''}${group}`
  }

  #ask<T>(what: string, work: (cluster: Cluster) => Promise<T>): Promise<T> {
    return patiently(
      what,
      () => {
        this.#check()
        return this.#connection.use(work)
      },
      this.#patience,
      this.#ending.signal,
    )
  }

  #check(): void {
    if (this.#ending.signal.aborted) throw new InstarError('log_unavailable', 'the log is closed')
  }
}
