/**
 * Writing: an idempotent producer of our own over kafkajs's `produce` request.
 *
 * The rules, each of which something was lost or doubled without:
 * - the partition is ours, not the client's, so that a record goes to the same one at every try;
 * - one batch is in flight; callers queue behind it, up to a bound. Partitions without a leader, or that a read holds back,
 *   wait aside in their order (`waiting-runs.ts`), and nobody behind them;
 * - what an answer does not name was not written, and is sent again before anything newer;
 * - after any failure all requests of the batch settle, the connections are given up, and the very same
 *   records go first, under the same producer id and sequence numbers, by which the broker knows those
 *   that it has and answers with their offsets. Only when the broker disowns the id comes a new one, and then
 *   a record may be there twice: readers drop repeats by the record's id;
 * - acks from all replicas that count; tried for as long as it takes. Only the queue's bound, and `close`, end it.
 */
import { InstarError } from '@instar/events/errors'
import { kafkaError, messageOf, produce, type Cluster, type KafkaConnection } from './client.ts'
import { byTopic, led, type TopicPartition } from './fetch.ts'
import {
  DISOWNED,
  DUPLICATE,
  REFUSED,
  type AppendCall,
  type QueuedRecord,
  type Outgoing,
  type QueueLimits,
  type Run,
} from './runs.ts'
import { kafkaBackoff } from './wait.ts'
import { WaitingRuns } from './waiting-runs.ts'

const BATCH_RECORDS = 2000
const BATCH_BYTES = 4 << 20
/** What a record takes beside its key and value. */
const OVERHEAD = 100
/** Sequence numbers are 31 bits and begin again at 0. */
const SEQUENCES = 2 ** 31
const ACKS_TIMEOUT = 30_000

export class Producer {
  readonly #connection: KafkaConnection
  readonly #limits: QueueLimits
  readonly #say: (line: string) => void
  readonly #waiting = new WaitingRuns()
  readonly #ending = new AbortController()
  #queue: QueuedRecord[] = []
  #records = 0
  #bytes = 0
  #running = false
  #closing = false
  #drained: (() => void) | undefined
  #identity: { producerId: string; producerEpoch: number } | undefined
  readonly #sequences = new Map<string, number>()

  constructor(connection: KafkaConnection, limits: QueueLimits, say: (line: string) => void) {
    this.#connection = connection
    this.#limits = limits
    this.#say = say
  }

  /** Offsets in the order of the records. Throws `log_full` when the queue has no room for all of them. */
  send(records: readonly Outgoing[]): Promise<number[]> {
    if (this.#closing) return Promise.reject(unavailable('the log is closed'))
    if (records.length === 0) return Promise.resolve([])
    const sizes = records.map(({ message }) => (message.key?.length ?? 0) + (message.value?.length ?? 0))
    const bytes = sizes.reduce((sum, size) => sum + size, 0)
    if (
      this.#records > 0 &&
      (this.#records + records.length > this.#limits.records || this.#bytes + bytes > this.#limits.bytes)
    ) {
      return Promise.reject(
        new InstarError('log_full', `${this.#records} records (${this.#bytes} bytes) wait to be written`, {
          records: this.#records,
          bytes: this.#bytes,
        }),
      )
    }
    return new Promise((resolve, reject) => {
      const call: AppendCall = {
        offsets: new Array<number>(records.length),
        missing: records.length,
        failed: false,
        resolve,
        reject,
      }
      for (const [index, record] of records.entries())
        this.#queue.push({ ...record, call, index, bytes: sizes[index]! })
      this.#waiting.wake()
      this.#records += records.length
      this.#bytes += bytes
      if (this.#running) return
      this.#running = true
      queueMicrotask(() => void this.#run())
    })
  }

  /** Nothing that is appended to these partitions from now on is sent before `reading` has settled. */
  holdBack(places: readonly TopicPartition[], reading: Promise<unknown>): void {
    this.#waiting.fence(places, reading)
  }

  /** Writes what waits; what is not written after `patience` milliseconds is refused. */
  async close(patience: number): Promise<void> {
    this.#closing = true
    const giveUp = setTimeout(() => {
      this.#ending.abort()
      this.#waiting.wake()
    }, patience)
    if (this.#running)
      await new Promise<void>((resolve) => {
        this.#drained = resolve
      })
    clearTimeout(giveUp)
    this.#ending.abort()
    this.#connection.close()
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0 || !this.#waiting.empty) {
      if (this.#ending.signal.aborted)
        this.#failAll(this.#waiting.all(), unavailable('the log was closed before its brokers answered'))
      if (this.#queue.length === 0) await this.#waiting.due()
      const items = await this.#ready(this.#take())
      const together = [...Map.groupBy(items, ({ topic, partition }) => `${topic}/${partition}`).values()]
      const runs = together.map((run) => ({ topic: run[0]!.topic, partition: run[0]!.partition, items: run }))
      const free = runs.filter((run) => !this.#waiting.behind(run))
      const again = this.#waiting.takeDue()
      if (again.some(({ leaderless }) => leaderless))
        await this.#connection.use((cluster) => cluster.refreshMetadata()).catch(() => undefined)
      await this.#write([...again, ...free])
    }
    this.#running = false
    this.#drained?.()
  }

  #take(): QueuedRecord[] {
    let count = 0
    let bytes = 0
    for (const item of this.#queue) {
      bytes += item.bytes + OVERHEAD
      if (count > 0 && (bytes > BATCH_BYTES || count === BATCH_RECORDS)) break
      count++
    }
    return this.#queue.splice(0, count)
  }

  async #ready(items: readonly QueuedRecord[]): Promise<QueuedRecord[]> {
    const ready: QueuedRecord[] = []
    for (const item of items) {
      try {
        const preparing = item.call.failed ? undefined : item.prepare?.(this.#ending.signal)
        if (preparing) await preparing
        if (item.call.failed) this.#forget(item)
        else ready.push(item)
      } catch (cause) {
        this.#fail(item, cause)
      }
    }
    return ready
  }

  /** Returns when every record of the runs is written, refused, or waits for a leader. Never throws. */
  async #write(runs: readonly Run[]): Promise<void> {
    let left = runs.filter((run) => !this.#waiting.follows(run))
    const backoff = kafkaBackoff()
    let told = false
    while (left.length > 0) {
      if (this.#ending.signal.aborted)
        return this.#failAll(left, unavailable('the log was closed before its brokers answered'))
      const before = left.length
      let failure: unknown
      try {
        left = await this.#try(left)
        const [leaderless, others] = [
          left.filter(({ leaderless: none }) => none),
          left.filter(({ leaderless: none }) => !none),
        ]
        if (leaderless.length > 0 && this.#waiting.away(leaderless))
          this.#say(
            `${leaderless.map(({ topic, partition }) => `${topic} ${partition}`).join(', ')} has no leader; what is appended there waits, the rest does not`,
          )
        left = others
      } catch (cause) {
        failure = cause
        left = left.filter(({ items }) => items.length > 0)
      }
      if (left.length === 0) break
      const kind = kafkaError(failure)
      if (kind !== undefined && REFUSED.has(kind)) return this.#divide(left, failure)
      if (kind === DUPLICATE && left.length === 1)
        return this.#failAll(left, unavailable('its brokers have these records and do not say where'))
      if (kind === DUPLICATE) return this.#divide(left, failure)
      if (kind !== undefined && DISOWNED.has(kind)) this.#identity = undefined
      if (failure !== undefined && !told)
        this.#say(`Kafka does not take records (${messageOf(failure)}); ${this.#records} wait`)
      told ||= failure !== undefined
      if (left.length > 0 && (failure !== undefined || left.length === before)) await backoff.wait(this.#ending.signal)
    }
    if (told) this.#say('Kafka takes records again')
  }

  /**
   * One request to each leader. Empties the runs that were acknowledged; returns the others, or throws after all have
   * settled.
   */
  async #try(runs: readonly Run[]): Promise<Run[]> {
    await this.#connection.use(async (cluster) => {
      const identity = this.#identity ?? (await this.#introduce(cluster))
      const { leaders, leaderless } = led(cluster, runs)
      for (const run of runs) run.leaderless = leaderless.includes(run)
      const outcomes = await Promise.allSettled(
        [...leaders].map(async ([nodeId, of]) => {
          const broker = await cluster.findBroker({ nodeId })
          const { topics } = await produce(broker, {
            ...identity,
            acks: -1,
            timeout: ACKS_TIMEOUT,
            topicData: byTopic(of).map(([topic, ofTopic]) => ({
              topic,
              partitions: ofTopic.map(({ partition, items }) => ({
                partition,
                firstSequence: this.#sequence(topic, partition),
                messages: items.map(({ message }) => message),
              })),
            })),
          })
          for (const { topicName, partitions } of topics) {
            for (const { partition, baseOffset } of partitions) {
              const run = of.find((one) => one.topic === topicName && one.partition === partition)
              if (run) this.#written(run, Number(baseOffset))
            }
          }
        }),
      )
      const failed = outcomes.find((outcome) => outcome.status === 'rejected')
      if (failed) throw failed.reason
    })
    return runs.filter(({ items }) => items.length > 0)
  }

  async #introduce(cluster: Cluster): Promise<{ producerId: string; producerEpoch: number }> {
    const broker = await cluster.findControllerBroker()
    const { producerId, producerEpoch } = await broker.initProducerId({ transactionTimeout: ACKS_TIMEOUT })
    this.#sequences.clear()
    return (this.#identity = { producerId, producerEpoch })
  }

  #sequence(topic: string, partition: number): number {
    return this.#sequences.get(`${topic}/${partition}`) ?? 0
  }

  #written(run: Run, baseOffset: number): void {
    const { topic, partition, items } = run
    run.items = []
    this.#waiting.reached(run)
    this.#sequences.set(`${topic}/${partition}`, (this.#sequence(topic, partition) + items.length) % SEQUENCES)
    if (baseOffset < 0)
      return this.#failAll([{ topic, partition, items }], unavailable('its brokers do not say where the records are'))
    for (const [i, item] of items.entries()) {
      this.#forget(item)
      item.call.offsets[item.index] = baseOffset + i
      if (--item.call.missing === 0 && !item.call.failed) item.call.resolve(item.call.offsets)
    }
  }

  /** Finds the record at fault: each partition by itself, then halves. */
  async #divide(runs: readonly Run[], cause: unknown): Promise<void> {
    for (const { topic, partition, items } of runs) {
      if (runs.length > 1) await this.#write([{ topic, partition, items }])
      else if (items.length === 1)
        this.#fail(
          items[0]!,
          new InstarError('bad_record', `Kafka refuses the record: ${messageOf(cause)}`, { topic }, { cause }),
        )
      else {
        const half = items.length >> 1
        await this.#write([{ topic, partition, items: items.slice(0, half) }])
        await this.#write([{ topic, partition, items: items.slice(half) }])
      }
    }
  }

  #failAll(runs: readonly Run[], cause: unknown): void {
    for (const { items } of runs) for (const item of items) this.#fail(item, cause)
  }

  #fail(item: QueuedRecord, cause: unknown): void {
    this.#forget(item)
    if (item.call.failed) return
    item.call.failed = true
    item.call.reject(cause)
  }

  #forget({ bytes }: QueuedRecord): void {
    this.#records--
    this.#bytes -= bytes
  }
}

const unavailable = (reason: string): InstarError =>
  new InstarError('log_unavailable', `the log cannot be written: ${reason}`)
