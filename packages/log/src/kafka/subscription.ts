/**
 * One subscription: a loop for each broker that leads some of the partitions, one fetch ahead of the handler,
 * one handler call at a time. No group, so no rebalance and no session to lose while a handler runs.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { PAGE_RECORDS } from '../reading.ts'
import type { LogRecord, Offsets, Position, SubscribeOptions, Subscription } from '../port.ts'
import { kafkaError, messageOf, NoLeader, type Fetchable, type KafkaConnection } from './client.ts'
import { EARLIEST, fetchFrom, LATEST, led, offsetsAt, type Fetched, type TopicPartition } from './fetch.ts'
import { truncated } from './opening.ts'
import type { Backoff } from '../backoff.ts'
import { kafkaBackoff } from './wait.ts'

/** Two of these are held at most for each broker: what is being handled and what comes next. */
const LIMITS = { maxBytes: 2 << 20, maxBytesPerPartition: 1 << 20, maxWaitTime: 500 }

/** How long the other partitions are read before the leader of a partition without one is looked up again. */
const LEADERLESS_MS = 2_000

type PartitionProgress = TopicPartition & {
  of: Topic
  /** Everything below it has been handled. */
  next: number
}

type SubscriptionParts = {
  connection: KafkaConnection
  readings: readonly PartitionProgress[]
  /** Our record, or undefined when it was put aside as unreadable. Waits for the registry if it must. */
  accept(
    topic: Topic,
    partition: number,
    record: Fetchable,
    signal: AbortSignal,
  ): LogRecord | undefined | Promise<LogRecord | undefined>
  /** Waits for brokers that are away until the signal. */
  ends(topics: readonly Topic[], signal: AbortSignal): Promise<Offsets>
  commit(group: string, positions: readonly Position[]): Promise<void>
  say(line: string): void
}

type CaughtUpWaiter = { ends: Offsets; resolve(): void; reject(cause: unknown): void }

/** Wraps an error that ends the subscription, unlike one of a broker. */
class HandlerError extends Error {}

export class KafkaSubscription implements Subscription {
  readonly done: Promise<void>
  readonly #parts: SubscriptionParts
  readonly #options: SubscribeOptions
  readonly #stopping = new AbortController()
  readonly #idle: Promise<void>
  #handling: Promise<void> = Promise.resolve()
  #waiters: CaughtUpWaiter[] = []
  #failed: { cause: unknown } | undefined
  #away = false
  /** Every partition had a leader when the round began. */
  #whole = true

  constructor(parts: SubscriptionParts, options: SubscribeOptions) {
    this.#parts = parts
    this.#options = options
    const ended = Promise.withResolvers<void>()
    this.done = ended.promise
    this.#idle = this.#run()
      .then(ended.resolve, (cause: unknown) => {
        this.#failed = { cause }
        ended.reject(cause)
      })
      .then(() => this.#leave())
  }

  commit(positions: readonly Position[]): Promise<void> {
    return this.#parts.commit(this.#options.group, positions)
  }

  async caughtUp(): Promise<void> {
    this.#check()
    const ends = await this.#parts.ends(this.#options.topics, this.#stopping.signal).catch((cause: unknown) => {
      this.#check()
      throw cause
    })
    this.#check()
    return new Promise((resolve, reject) => {
      this.#waiters.push({ ends, resolve, reject })
      this.#settle()
    })
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#idle
  }

  #check(): void {
    if (this.#failed) throw this.#failed.cause
    if (this.#stopping.signal.aborted) throw stopped()
  }

  async #run(): Promise<void> {
    const backoff = kafkaBackoff()
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#parts.connection.use(async (cluster) => {
          const { leaders, leaderless } = led(cluster, this.#parts.readings)
          const round = new AbortController()
          // Then it is asked again who leads the others.
          const limit = leaderless.length > 0 ? setTimeout(() => round.abort(), LEADERLESS_MS) : undefined
          this.#whole = leaderless.length === 0
          const outcomes = await Promise.allSettled(
            [...leaders].map(async ([nodeId, readings]) => {
              try {
                await this.#follow(
                  (wants) => fetchFrom(cluster, nodeId, wants, LIMITS),
                  readings,
                  round.signal,
                  backoff,
                )
              } finally {
                round.abort()
              }
            }),
          )
          clearTimeout(limit)
          const reasons = outcomes.flatMap((outcome) =>
            outcome.status === 'rejected' ? [outcome.reason as unknown] : [],
          )
          if (reasons.length > 0) throw reasons.find((reason) => reason instanceof HandlerError) ?? reasons[0]
          if (leaderless.length > 0) throw new NoLeader(leaderless)
        })
      } catch (cause) {
        if (cause instanceof HandlerError) throw cause.cause
        if (this.#stopping.signal.aborted) return
        if (cause instanceof InstarError && !cause.retryable) throw cause
        if (kafkaError(cause) === 'OFFSET_OUT_OF_RANGE') await this.#findPlace()
        if (!this.#away) this.#parts.say(`Kafka cannot be read (${messageOf(cause)}); trying again`)
        this.#away = true
        await backoff.wait(this.#stopping.signal)
      }
    }
  }

  /** Until stopped, or until another loop of the round has failed. Throws what a fetch or the handler threw. */
  async #follow(
    fetch: (wants: { topic: string; partition: number; offset: number }[]) => Promise<Fetched[]>,
    readings: readonly PartitionProgress[],
    over: AbortSignal,
    backoff: Backoff,
  ): Promise<void> {
    const ahead = new Map(readings.map((reading) => [reading, reading.next]))
    const begin = (): Promise<Fetched[]> => {
      const fetching = fetch(
        readings.map((reading) => ({
          topic: reading.topic,
          partition: reading.partition,
          offset: ahead.get(reading)!,
        })),
      )
      fetching.catch(() => undefined)
      return fetching
    }
    let coming = begin()
    while (!this.#stopping.signal.aborted && !over.aborted) {
      const batches = await orAborted(coming, this.#stopping.signal)
      if (!batches) return
      backoff.reset()
      if (this.#away && this.#whole) this.#parts.say('Kafka is read again')
      this.#away &&= !this.#whole
      const found = batches.map((batch) => ({
        batch,
        reading: readings.find(({ topic, partition }) => topic === batch.topic && partition === batch.partition)!,
      }))
      for (const { batch, reading } of found) ahead.set(reading, batch.next)
      coming = begin()
      for (const { batch, reading } of found) {
        if (batch.next === reading.next) continue
        const turn = this.#handling.then(() => this.#handle(reading, batch))
        this.#handling = turn.catch(() => undefined)
        await turn
      }
      this.#settle()
    }
  }

  async #handle(reading: PartitionProgress, { records, next }: Fetched): Promise<void> {
    const { maxBatch = PAGE_RECORDS, handle } = this.#options
    try {
      for (let i = 0; i < records.length; i += maxBatch) {
        const batch: LogRecord[] = []
        for (const record of records.slice(i, i + maxBatch)) {
          const accepted = this.#parts.accept(reading.of, reading.partition, record, this.#stopping.signal)
          const ours = accepted instanceof Promise ? await accepted : accepted
          if (ours) batch.push(ours)
        }
        if (this.#stopping.signal.aborted) return
        if (batch.length > 0) await handle(batch)
        reading.next = Number(records[Math.min(i + maxBatch, records.length) - 1]!.offset) + 1
      }
      reading.next = next
    } catch (cause) {
      if (this.#stopping.signal.aborted && cause instanceof InstarError && cause.code === 'log_unavailable') return
      this.#stopping.abort()
      throw new HandlerError('', { cause })
    }
  }

  /**
   * A replica that lags may be asked again. Throws when records were deleted meanwhile, or the offset lies beyond the
   * end.
   */
  async #findPlace(): Promise<void> {
    const { connection, readings } = this.#parts
    let bounds: [first: number, end: number][]
    try {
      bounds = await connection.use(async (cluster) => {
        const [first, end] = await Promise.all([
          offsetsAt(cluster, readings, EARLIEST),
          offsetsAt(cluster, readings, LATEST),
        ])
        const of = (reading: PartitionProgress, places: typeof first): number =>
          places.find(({ topic, partition }) => topic === reading.topic && partition === reading.partition)!.offset
        return readings.map((reading) => [of(reading, first), of(reading, end)])
      })
    } catch (cause) {
      return this.#parts.say(`Kafka cannot be read (${messageOf(cause)}); trying again`)
    }
    for (const [i, reading] of readings.entries()) {
      const [first, end] = bounds[i]!
      if (reading.next > end)
        throw new InstarError(
          'position_unknown',
          `${reading.of} ${reading.partition}@${reading.next} lies beyond the end of this log, which is ${end}`,
          { topic: reading.of, partition: reading.partition, offset: reading.next, end },
        )
      if (reading.next < first) throw truncated(reading.of, reading.partition, first)
    }
  }

  #settle(): void {
    const reached = ({ ends }: CaughtUpWaiter): boolean =>
      this.#parts.readings.every(({ of, partition, next }) => next >= (ends[of]?.[partition] ?? 0))
    const settled = this.#waiters.filter(reached)
    this.#waiters = this.#waiters.filter((waiter) => !settled.includes(waiter))
    for (const { resolve } of settled) resolve()
  }

  #leave(): void {
    this.#stopping.abort()
    this.#parts.connection.close()
    const cause = this.#failed ? this.#failed.cause : stopped()
    for (const waiter of this.#waiters.splice(0)) waiter.reject(cause)
  }
}

const stopped = (): InstarError => new InstarError('log_unavailable', 'the subscription was stopped')

const orAborted = <T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> => {
  if (signal.aborted) return Promise.resolve(undefined)
  const aborted = Promise.withResolvers<undefined>()
  const onAbort = (): void => aborted.resolve(undefined)
  signal.addEventListener('abort', onAbort, { once: true })
  return Promise.race([promise, aborted.promise]).finally(() => signal.removeEventListener('abort', onAbort))
}
