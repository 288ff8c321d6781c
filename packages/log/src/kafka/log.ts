/**
 * The event log on Kafka. Values are in the registry's wire format; the group's commits are Kafka's own.
 * Every partition is read by everyone who subscribes: groups only remember how far.
 */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { partitionCounts, partitionOf, type PartitionCounts } from '../partition.ts'
import type { Append, EventLog, LogRecord, Offsets, Position, ReadOptions, SubscribeOptions, Subscription } from '../port.ts'
import { checkAppend } from '../record.ts'
import { kafkaError, Link, messageOf, type ClientOptions, type Cluster, type Fetchable } from './client.ts'
import { DeadLetters, type DeadLetter } from './dead-letters.ts'
import { byLeader, fetchFrom, LATEST, offsetsAt } from './fetch.ts'
import { frame, setId, timestampText, unframe } from './frame.ts'
import { Producer, type Outgoing, type QueueLimits } from './producer.ts'
import { limitsOf, readPages } from './reading.ts'
import { fixedIds, RegistryIds, type SchemaIds } from './schemas.ts'
import { KafkaSubscription } from './subscription.ts'
import { MAX_RECORD_BYTES, topicNames, type TopicNames } from './topics.ts'
import { patiently, Pauses } from './wait.ts'

export type KafkaOptions = ClientOptions & {
  /** The registry's Confluent-compatible address, or ids that were agreed upon elsewhere. */
  registry: string | ReadonlyMap<string, number>
  /** Schema name → Avro JSON: what may be appended, and is known by name when read. */
  schemas: Readonly<Record<string, string>>
  /** Where they differ from the flow table's. */
  partitions?: Partial<Record<Topic, number>>
  /** Stands before the names of topics and groups. */
  prefix?: string
  /** How much may wait to be written before `log_full`. Default: 16,384 records, 64 MiB. */
  queue?: Partial<QueueLimits>
  /** Milliseconds after which a question to the brokers, or what waits at `close`, is given up. Default 30,000. Appends wait without end. */
  patience?: number
  /** Told when Kafka or the registry goes away and when it is back. */
  say?(line: string): void
}

export type KafkaLog = EventLog & {
  /** Copies a record that is there, and that nobody can read, to its dead letters. */
  setAside(position: Position, reason: string): Promise<void>
  deadLetters(topic: Topic): Promise<DeadLetter[]>
}

/** Throws `partition_count_changed`, `not_set_up` when `setup` has not run, or `log_unavailable` when no broker answers. */
export const openKafkaLog = async (options: KafkaOptions): Promise<KafkaLog> => {
  const counts = partitionCounts(options.partitions)
  const names = topicNames(options.prefix)
  const ids = typeof options.registry === 'string' ? new RegistryIds(options.registry, options.clientId, options.schemas) : fixedIds(options.registry)
  const link = new Link(options, names.all)
  try {
    await patiently('opening', () => link.use((cluster) => checkTopics(cluster, names, counts)), options.patience ?? PATIENCE, new AbortController().signal)
    await Promise.all(Object.keys(options.schemas).map((schema) => ids.idOf(schema).catch((cause: unknown) => {
      if (cause instanceof InstarError) throw cause
      options.say?.(`the schema registry does not answer (${messageOf(cause)}); asking again when it is needed`)
    })))
    return new Log(options, counts, names, ids, link)
  } catch (cause) {
    link.close()
    throw kafkaError(cause) === 'UNKNOWN_TOPIC_OR_PARTITION' ? new InstarError('not_set_up', 'Kafka does not hold the topics of the log', {}, { cause }) : cause
  }
}

const PATIENCE = 30_000

const checkTopics = async (cluster: Cluster, names: TopicNames, counts: PartitionCounts): Promise<void> => {
  for (const topic of TOPICS) {
    const stored = cluster.findTopicPartitionMetadata(names.of(topic)).length
    if (stored !== counts[topic]) throw new InstarError('partition_count_changed', `${topic} has ${stored} partitions on this log, ${counts[topic]} are configured`, { topic, stored, configured: counts[topic] })
  }
}

class Log implements KafkaLog {
  readonly #options: KafkaOptions
  readonly #counts: PartitionCounts
  readonly #names: TopicNames
  readonly #ids: SchemaIds
  readonly #link: Link
  readonly #producer: Producer
  readonly #dead: DeadLetters
  readonly #subscriptions = new Set<Subscription>()
  readonly #ending = new AbortController()
  readonly #patience: number
  #closing: Promise<void> | undefined

  constructor(options: KafkaOptions, counts: PartitionCounts, names: TopicNames, ids: SchemaIds, link: Link) {
    this.#options = options
    this.#counts = counts
    this.#names = names
    this.#ids = ids
    this.#link = link
    this.#patience = options.patience ?? PATIENCE
    this.#producer = new Producer(new Link(options, names.all), { records: options.queue?.records ?? 16_384, bytes: options.queue?.bytes ?? 64 << 20 }, (line) => options.say?.(line))
    this.#dead = new DeadLetters(link, this.#producer, names.deadLetters)
  }

  async append(records: readonly Append[]): Promise<Position[]> {
    this.#check()
    const outgoing = records.map((record) => this.#outgoing(record))
    const offsets = await this.#producer.send(outgoing)
    return offsets.map((offset, i) => ({ topic: records[i]!.topic, partition: outgoing[i]!.partition, offset }))
  }

  async subscribe(options: SubscribeOptions): Promise<Subscription> {
    this.#check()
    const { topics, group, from } = options
    const starts = from === 'committed' ? await this.#committed(group, topics) : from === 'start' ? {} : from
    const places = await Promise.all(topics.map(async (topic) => {
      const { starts: first } = await this.#ask('finding a position', (cluster) => limitsOf(cluster, { topic, name: this.#names.of(topic), count: this.#counts[topic] }, { from: starts }))
      return first.map((next, partition) => ({ of: topic, topic: this.#names.of(topic), partition, next }))
    }))
    this.#check()
    const subscription = new KafkaSubscription({
      link: new Link(this.#options, topics.map(this.#names.of)),
      readings: places.flat(),
      accept: (topic, partition, record, signal) => this.#accept(topic, partition, record, signal),
      ends: (of) => this.ends(of),
      commit: (to, positions) => this.#commit(to, positions),
      say: (line) => this.#options.say?.(line),
    }, options)
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
    this.#producer.holdBack(limits)
    return readPages(place, options, limits, {
      ask: (work) => this.#ask('reading', work),
      accept: (partition, record) => this.#named(topic, partition, record),
    })
  }

  async at({ topic, partition, offset }: Position): Promise<LogRecord | undefined> {
    const record = await this.#raw({ topic, partition, offset })
    return record && await this.#named(topic, partition, record)
  }

  async ends(topics: readonly Topic[]): Promise<Offsets> {
    const places = topics.flatMap((topic) => Array.from({ length: this.#counts[topic] }, (_, partition) => ({ of: topic, topic: this.#names.of(topic), partition })))
    const ends = await this.#ask('finding the ends', (cluster) => offsetsAt(cluster, places, LATEST))
    return Object.fromEntries(topics.map((topic) => [topic, Object.fromEntries(ends.filter((end) => end.topic === this.#names.of(topic))
      .toSorted((a, b) => a.partition - b.partition).map(({ partition, offset }) => [partition, offset]))]))
  }

  partitions(topic: Topic): number {
    return this.#counts[topic]
  }

  async setAside(position: Position, reason: string): Promise<void> {
    const record = await this.#raw(position)
    if (!record) throw new InstarError('position_unknown', `${position.topic} ${position.partition}@${position.offset} holds no record`, { ...position })
    await this.#dead.put(position.topic, position.partition, record, reason)
  }

  deadLetters(topic: Topic): Promise<DeadLetter[]> {
    return patiently('reading dead letters', () => this.#dead.read(topic), this.#patience, this.#ending.signal)
  }

  /** Handlers that run may still read, append and commit. */
  close(): Promise<void> {
    return this.#closing ??= this.#close()
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#subscriptions].map((subscription) => subscription.stop()))
    await this.#producer.close(this.#patience)
    this.#ending.abort()
    this.#link.close()
  }

  #outgoing(record: Append): Outgoing {
    checkAppend(record)
    const { topic, key, schema, payload, timestamp } = record
    if (!Object.hasOwn(this.#options.schemas, schema)) throw new InstarError('bad_record', `the log was opened without the schema ${schema}`, { schema })
    const value = frame(payload)
    const keyBytes = Buffer.from(key, 'utf8')
    if (value.length + keyBytes.length > MAX_RECORD_BYTES) throw new InstarError('bad_record', `a record of ${value.length + keyBytes.length} bytes is larger than ${MAX_RECORD_BYTES}`, { topic, key })
    return {
      topic: this.#names.of(topic), partition: partitionOf(key, this.#counts[topic]),
      message: { key: keyBytes, value, timestamp: timestampText(timestamp) },
      prepare: () => {
        const id = this.#ids.known(schema)
        if (id === undefined) return this.#patientId(schema).then((found) => setId(value, found))
        setId(value, id)
        return undefined
      },
    }
  }

  /** A registry that does not answer is waited for. */
  #patientId(schema: string): Promise<number> {
    return this.#waitForRegistry(() => this.#ids.idOf(schema), this.#ending.signal)
  }

  async #waitForRegistry<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const pauses = new Pauses()
    let told = false
    for (;;) {
      try {
        const answer = await ask()
        if (told) this.#options.say?.('the schema registry answers again')
        return answer
      } catch (cause) {
        if (cause instanceof InstarError) throw cause
        if (signal.aborted) throw new InstarError('log_unavailable', `the schema registry does not answer: ${messageOf(cause)}`, {}, { cause })
        if (!told) this.#options.say?.(`the schema registry does not answer (${messageOf(cause)}); waiting for it`)
        told = true
        await pauses.pause(signal)
      }
    }
  }

  /** For a subscription: what cannot be read is put aside. */
  #accept(topic: Topic, partition: number, record: Fetchable, signal: AbortSignal): LogRecord | undefined | Promise<LogRecord | undefined> {
    const unframed = unframe(topic, partition, record)
    if ('bad' in unframed) return this.#putAside(topic, partition, record, unframed.bad, signal)
    const schema = this.#ids.nameOf(unframed.id)
    if (schema !== undefined) return unframed.named(schema)
    return this.#waitForRegistry(() => this.#ids.find(unframed.id), signal)
      .then((found) => found === undefined ? this.#putAside(topic, partition, record, `there is no schema ${unframed.id}`, signal) : unframed.named(found))
  }

  async #putAside(topic: Topic, partition: number, record: Fetchable, reason: string, signal: AbortSignal): Promise<undefined> {
    this.#options.say?.(`${topic} ${partition}@${record.offset} cannot be read: ${reason}`)
    await patiently('putting a record aside', () => this.#dead.put(topic, partition, record, reason), Infinity, signal)
    return undefined
  }

  /** For a read: what cannot be read is passed over. */
  async #named(topic: Topic, partition: number, record: Fetchable): Promise<LogRecord | undefined> {
    const unframed = unframe(topic, partition, record)
    if ('bad' in unframed) return undefined
    const schema = this.#ids.nameOf(unframed.id) ?? await this.#waitForRegistry(() => this.#ids.find(unframed.id), AbortSignal.any([this.#ending.signal, AbortSignal.timeout(this.#patience)]))
    return schema === undefined ? undefined : unframed.named(schema)
  }

  async #raw({ topic, partition, offset }: Position): Promise<Fetchable | undefined> {
    if (!(partition >= 0 && partition < this.#counts[topic]) || offset < 0) return undefined
    const place = { topic: this.#names.of(topic), partition, offset }
    return this.#ask('reading a record', async (cluster) => {
      const [nodeId] = byLeader(cluster, [place]).keys()
      try {
        const [batch] = await fetchFrom(cluster, nodeId!, [place], { maxBytes: 1, maxBytesPerPartition: 1, maxWaitTime: 0 })
        return batch?.records.find((record) => Number(record.offset) === offset)
      } catch (cause) {
        if (kafkaError(cause) === 'OFFSET_OUT_OF_RANGE') return undefined
        throw cause
      }
    })
  }

  async #committed(group: string, topics: readonly Topic[]): Promise<Offsets> {
    const groupId = this.#groupId(group)
    const { responses } = await this.#ask('reading what a group committed', async (cluster) => {
      const broker = await cluster.findGroupCoordinator({ groupId })
      return broker.offsetFetch({ groupId, topics: topics.map((topic) => ({ topic: this.#names.of(topic), partitions: Array.from({ length: this.#counts[topic] }, (_, partition) => ({ partition, offset: '-1' })) })) })
    })
    return Object.fromEntries(topics.map((topic) => {
      const of = responses.find((response) => response.topic === this.#names.of(topic))?.partitions ?? []
      return [topic, Object.fromEntries(of.map(({ partition, offset }) => [partition, Math.max(0, Number(offset))]))]
    }))
  }

  async #commit(group: string, positions: readonly Position[]): Promise<void> {
    const groupId = this.#groupId(group)
    const topics = [...Map.groupBy(positions, ({ topic }) => topic)].map(([topic, of]) => ({ topic: this.#names.of(topic), partitions: of.map(({ partition, offset }) => ({ partition, offset: String(offset) })) }))
    if (topics.length === 0) return
    await this.#ask('committing', async (cluster) => {
      const broker = await cluster.findGroupCoordinator({ groupId })
      await broker.offsetCommit({ groupId, groupGenerationId: -1, memberId: '', topics })
    })
  }

  #groupId(group: string): string {
    return `${this.#options.prefix ?? ''}${group}`
  }

  #ask<T>(what: string, work: (cluster: Cluster) => Promise<T>): Promise<T> {
    return patiently(what, () => {
      this.#check()
      return this.#link.use(work)
    }, this.#patience, this.#ending.signal)
  }

  #check(): void {
    if (this.#ending.signal.aborted) throw new InstarError('log_unavailable', 'the log is closed')
  }
}
