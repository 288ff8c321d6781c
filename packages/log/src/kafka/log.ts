/**
 * The event log on Kafka. Record values have the wire format of Confluent's schema registry; commits are committed
 * offsets of Kafka's consumer groups. Every subscriber reads all partitions: groups only store offsets and divide work.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { PartitionCounts } from '../partition.ts'
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
import { KafkaConnection, type Cluster, type KafkaRecord } from './client.ts'
import { Cuts } from './cuts.ts'
import { DeadLetters, retriedDeadLetters, type DeadLetter } from './dead-letters.ts'
import { fetchRecord, LATEST, offsetsAt } from './fetch.ts'
import { commitOffsets, knownOffsets } from './group-offsets.ts'
import { Membership } from './membership.ts'
import { DEFAULT_RETRY_MS, type KafkaOptions } from './options.ts'
import { Producer } from './producer.ts'
import { partitionsOf, readBounds, readPages } from './reading.ts'
import { RecordCodec } from './record-codec.ts'
import { withRetries } from './retry.ts'
import type { SchemaResolver } from './schemas.ts'
import { KafkaSubscription } from './subscription.ts'
import { allPartitions, offsetsByTopic } from './topic-offsets.ts'
import type { TopicNames } from './topics.ts'

export type KafkaLog = EventLog &
  Required<Pick<EventLog, 'starts' | 'cut'>> & {
    /** Every schema on the log: name → Avro JSON. */
    schemas(): Record<string, string>
    deadLetter(position: Position, reason: string): Promise<void>
    /** The dead letters of a topic as of this call, each record once. */
    deadLetters(topic: Topic): AsyncIterable<DeadLetter>
  }

/**
 * Default session timeout of group members, ms: the minimum that brokers allow by default, so that the partitions of a
 * failed member are reassigned soon. A wrong reassignment costs little.
 */
const SESSION_TIMEOUT_MS = 6_000
/** Minimum timeout of group requests, ms. A session has time for several, but a busy broker may need this long. */
const MIN_GROUP_REQUEST_MS = 1_000

export class KafkaEventLog implements KafkaLog {
  readonly #options: KafkaOptions
  readonly #counts: PartitionCounts
  readonly #names: TopicNames
  readonly #codec: RecordCodec
  readonly #schemas: SchemaResolver
  readonly #connection: KafkaConnection
  readonly #producer: Producer
  readonly #deadLetters: DeadLetters
  readonly #subscriptions = new Set<Subscription>()
  readonly #memberships = new Set<PartitionAssignment>()
  readonly #ending = new AbortController()
  readonly #retryMs: number
  readonly cuts: Cuts
  #closing: Promise<void> | undefined

  constructor(
    options: KafkaOptions,
    counts: PartitionCounts,
    names: TopicNames,
    schemas: SchemaResolver,
    connection: KafkaConnection,
  ) {
    this.#options = options
    this.#counts = counts
    this.#names = names
    this.#connection = connection
    this.cuts = new Cuts({ log: this, names, counts, request: (what, work) => this.#request(what, work) })
    this.#schemas = schemas
    this.#retryMs = options.retryMs ?? DEFAULT_RETRY_MS
    this.#producer = new Producer(
      new KafkaConnection(options, names.all),
      { records: options.queue?.records ?? 16_384, bytes: options.queue?.bytes ?? 64 << 20 },
      (line) => options.logLine?.(line),
    )
    this.#deadLetters = new DeadLetters(connection, this.#producer, names.deadLetters)
    this.#codec = new RecordCodec({
      resolver: schemas,
      schemas: options.schemas,
      counts,
      names,
      retryMs: this.#retryMs,
      ending: this.#ending.signal,
      ...retriedDeadLetters(this.#deadLetters, this.#retryMs, this.#report),
      logLine: (line) => options.logLine?.(line),
    })
  }

  readonly #report = (line: string): void => this.#options.logLine?.(line)

  async append(records: readonly Append[]): Promise<Position[]> {
    this.#check()
    const outgoing = records.map((record) => this.#codec.encode(record))
    const offsets = await this.#producer.send(outgoing)
    return offsets.map((offset, i) => ({ topic: records[i]!.topic, partition: outgoing[i]!.partition, offset }))
  }

  async subscribe(options: SubscribeOptions): Promise<Subscription> {
    this.#check()
    const { topics, group, from } = options
    const offsets = from === 'committed' ? ((await this.committed(group, topics)) ?? {}) : from === 'start' ? {} : from
    const partitions = await Promise.all(
      topics.map(async (topic) => {
        const { starts, first } = await this.#request('finding a position', (cluster) =>
          readBounds(cluster, { topic, name: this.#names.of(topic), count: this.#counts[topic] }, { from: offsets }),
        )
        await this.cuts.requireHeld(topic, first, topic === options.byPartition ? undefined : starts)
        return starts.map((next, partition) => ({ of: topic, topic: this.#names.of(topic), partition, next }))
      }),
    )
    this.#check()
    const subscription = new KafkaSubscription(
      {
        connection: new KafkaConnection(this.#options, topics.map(this.#names.of)),
        partitions: partitions.flat(),
        decode: (topic, partition, record, signal) => this.#codec.decodeOrDeadLetter(topic, partition, record, signal),
        ends: (of, signal) => withRetries('reading end offsets', () => this.ends(of), Infinity, signal),
        commit: (to, positions) => this.commit(to, positions),
        missing: (of, partition, first) => this.cuts.missing(of, partition, first),
        logLine: (line) => this.#options.logLine?.(line),
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
    const kafkaTopic = { topic, name: this.#names.of(topic), count: this.#counts[topic] }
    const bounds = this.#request('reading offsets', (cluster) => readBounds(cluster, kafkaTopic, options)).then(
      (found) => this.cuts.heldBounds(topic, found, options),
    )
    bounds.catch(() => undefined)
    this.#producer.fence(partitionsOf(kafkaTopic, options), bounds)
    return readPages(kafkaTopic, options, bounds, {
      request: (work) => this.#request('reading', work),
      decode: (partition, record) => this.#codec.decode(topic, partition, record),
      missing: (partition, first) => this.cuts.missing(topic, partition, first),
    })
  }

  readonly joinGroup: EventLog['joinGroup'] = async (group, topic, onChange, known) => {
    this.#check()
    const { session = SESSION_TIMEOUT_MS, requestTimeout = session, ...options } = this.#options
    const membership = new Membership({
      connection: new KafkaConnection(
        { ...options, requestTimeout: Math.min(requestTimeout, Math.max(MIN_GROUP_REQUEST_MS, session / 3)) },
        [this.#names.of(topic)],
      ),
      groupId: this.#groupId(`${group}.share`),
      topic: this.#names.of(topic),
      partitions: this.#counts[topic],
      session,
      onChange,
      ...(known ? { known } : {}),
      logLine: (line) => options.logLine?.(line),
    })
    this.#memberships.add(membership)
    return membership
  }

  async at(position: Position): Promise<LogRecord | undefined> {
    const record = await this.#recordAt(position)
    if (record) return this.#codec.decode(position.topic, position.partition, record)
    await this.cuts.requireAt(position)
    return undefined
  }

  starts(topics: readonly Topic[]): Promise<Offsets> {
    return this.cuts.starts(topics)
  }

  cut(starts: Offsets): Promise<void> {
    return this.cuts.cut(starts)
  }

  async ends(topics: readonly Topic[]): Promise<Offsets> {
    const partitions = allPartitions(topics, this.#names, this.#counts)
    const ends = await this.#request('reading end offsets', (cluster) => offsetsAt(cluster, partitions, LATEST))
    return offsetsByTopic(topics, this.#names, ends)
  }

  partitions(topic: Topic): number {
    return this.#counts[topic]
  }

  deadLetter(position: Position, reason: string): Promise<void> {
    const { topic, partition, offset } = position
    return withRetries(
      'writing a dead letter',
      async () => {
        const record = await this.#recordAt(position)
        if (!record)
          throw new InstarError('position_unknown', `there is no record at ${topic} ${partition}@${offset}`, {
            ...position,
          })
        await this.#deadLetters.add(topic, partition, record, reason)
      },
      Infinity,
      this.#ending.signal,
      this.#report,
    )
  }

  schemas(): Record<string, string> {
    return this.#schemas.texts()
  }

  deadLettersKnown(): ReadonlyMap<Topic, number> {
    return this.#deadLetters.known()
  }

  deadLetters(topic: Topic): AsyncIterable<DeadLetter> {
    return this.#deadLetters.read(topic, (work) => this.#request('reading dead letters', work))
  }

  /** Stops subscriptions first, so that running handlers may still read, append and commit. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    await Promise.all([
      ...[...this.#memberships].map((membership) => membership.leave()),
      ...[...this.#subscriptions].map((subscription) => subscription.stop()),
    ])
    await this.#producer.close(this.#retryMs)
    this.#ending.abort()
    this.#connection.close()
  }

  async #recordAt({ topic, partition, offset }: Position): Promise<KafkaRecord | undefined> {
    if (!(partition >= 0 && partition < this.#counts[topic]) || offset < 0) return undefined
    return this.#request('reading a record', (cluster) =>
      fetchRecord(cluster, { topic: this.#names.of(topic), partition, offset }),
    )
  }

  async committed(group: string, topics: readonly Topic[]): Promise<Offsets | null> {
    const partitions = allPartitions(topics, this.#names, this.#counts)
    const known = await this.#request('reading committed offsets', (cluster) =>
      knownOffsets(cluster, this.#groupId(group), partitions),
    )
    return known.length === 0 ? null : offsetsByTopic(topics, this.#names, known)
  }

  async commit(group: string, positions: readonly Position[]): Promise<void> {
    if (positions.length === 0) return
    const named = positions.map(({ topic, partition, offset }) => ({ topic: this.#names.of(topic), partition, offset }))
    await this.#request('committing', (cluster) => commitOffsets(cluster, this.#groupId(group), named))
  }

  #groupId(group: string): string {
    return `${this.#options.prefix ?? ''}${group}`
  }

  #request<T>(what: string, work: (cluster: Cluster) => Promise<T>): Promise<T> {
    return withRetries(
      what,
      () => {
        this.#check()
        return this.#connection.use(work)
      },
      this.#retryMs,
      this.#ending.signal,
    )
  }

  #check(): void {
    if (this.#ending.signal.aborted) throw new InstarError('log_unavailable', 'the log is closed')
  }
}
