/**
 * A subscription on Kafka. One loop per leader fetches its partitions, one fetch ahead of the handler; handler calls do
 * not overlap. There is no group membership, so a slow handler causes no rebalance.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { setImmediate } from 'node:timers/promises'
import { PAGE_RECORDS } from '../reading.ts'
import type { LogRecord, Offsets, Position, SubscribeOptions, Subscription } from '../port.ts'
import { kafkaError, messageOf, NoLeader, type KafkaRecord, type KafkaConnection } from './client.ts'
import { fetchFrom, splitByLeader, Progress, type FetchedPartition, type FetchPosition } from './fetch.ts'
import { requireComplete } from './open-checks.ts'
import type { Backoff } from '../backoff.ts'
import { Gathering, positionsOf, type MostMs } from './gathering.ts'
import { aborted, orAborted, Rests } from './promises.ts'
import { checkPositions, ReadPartitions, type PartitionProgress } from './read-partitions.ts'
import { kafkaBackoff } from './retry.ts'

/** Limits of a fetch. At most two per leader are in memory: one that is handled and the next one. */
const LIMITS = { maxBytes: 2 << 20, maxBytesPerPartition: 1 << 20 }

/**
 * The longest that a fetch waits for a record, ms. A fetch that brings nothing costs as much as one that brings a record, and the
 * first record ends a fetch. A broker answers a connection's requests one after the other, so that a fetch of other partitions waits
 * for the one before: where they may change fetches wait shorter.
 */
const WAIT_MS = 5_000
const WAIT_BEFORE_OTHERS_MS = 500

/** Milliseconds until the leader of a partition without one is looked up again. */
const LEADERLESS_MS = 2_000

type SubscriptionParts = {
  connection: KafkaConnection
  /** Of the topic `byPartition` those that can be taken. */
  partitions: readonly PartitionProgress[]
  /** The decoded record; undefined if it is unreadable (a dead letter). May wait for the registry. */
  decode(
    topic: Topic,
    partition: number,
    record: KafkaRecord,
    signal: AbortSignal,
  ): LogRecord | undefined | Promise<LogRecord | undefined>
  /** The end offsets. Retries until the signal is aborted. */
  ends(topics: readonly Topic[], signal: AbortSignal): Promise<Offsets>
  commit(group: string, positions: readonly Position[]): Promise<void>
  /** The error for records below the first offset of a partition. */
  missing: (topic: Topic, partition: number, first: number) => Promise<InstarError>
  logLine(line: string): void
}

type CaughtUpWaiter = { ends: Offsets; resolve(): void; reject(cause: unknown): void }

/** Wraps an error of the handler or of decoding, which ends the subscription. */
class HandlerError extends Error {}

export class KafkaSubscription implements Subscription {
  readonly done: Promise<void>
  readonly #parts: SubscriptionParts
  readonly #options: SubscribeOptions
  readonly #stopping = new AbortController()
  readonly #idle: Promise<void>
  #handling: Promise<void> = Promise.resolve()
  #waiters: CaughtUpWaiter[] = []
  /** Of loops that fetch nothing because all of their records may be late. */
  readonly #rests = new Rests()
  readonly #reading: ReadPartitions
  #soon: Promise<Offsets> | undefined
  /** Ends the round of fetches, so that the next one has other partitions. */
  #round = new AbortController()
  #failed: { cause: unknown } | undefined
  #unreachable = false
  /** Whether all partitions had a leader at the start of the current round of fetches. */
  #allHaveLeaders = true

  constructor(parts: SubscriptionParts, options: SubscribeOptions) {
    this.#parts = parts
    this.#options = options
    this.#reading = new ReadPartitions(parts.partitions, options.byPartition)
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
    return this.#readTo(await this.#ends())
  }

  async take(partition: number, from: () => number): Promise<void> {
    this.#check()
    const progress = this.#reading.take(partition)
    // Behind the handler that runs, which may still be given records of the partition.
    const taking = this.#handling.then(() => {
      if (this.#reading.begin(progress, from)) this.#round.abort()
    })
    this.#handling = taking.catch(() => undefined)
    await taking
    const ends = await this.#endsSoon()
    return this.#readTo({ ...ends, [progress.of]: { [partition]: ends[progress.of]?.[partition] ?? 0 } })
  }

  release(partition: number): void {
    if (this.#reading.release(partition)) this.#round.abort()
    this.#settle()
  }

  /** One request for all partitions that are taken in one turn of the event loop. */
  #endsSoon(): Promise<Offsets> {
    return (this.#soon ??= setImmediate().then(() => {
      this.#soon = undefined
      return this.#ends()
    }))
  }

  async #ends(): Promise<Offsets> {
    this.#check()
    const ends = await this.#parts.ends(this.#options.topics, this.#stopping.signal).catch((cause: unknown) => {
      this.#check()
      throw cause
    })
    this.#check()
    return ends
  }

  #readTo(ends: Offsets): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiters.push({ ends, resolve, reject })
      this.#settle()
      if (this.#waiters.length > 0) this.#rests.end()
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
          const round = (this.#round = new AbortController())
          const { leaders, leaderless } = splitByLeader(cluster, this.#reading.list())
          // Ends the round, so that leaders are looked up again.
          const limit = leaderless.length > 0 ? setTimeout(() => round.abort(), LEADERLESS_MS) : undefined
          this.#allHaveLeaders = leaderless.length === 0
          if (this.#reading.size === 0) await aborted(AbortSignal.any([this.#stopping.signal, round.signal]))
          const outcomes = await Promise.allSettled(
            [...leaders].map(async ([nodeId, partitions]) => {
              try {
                await this.#fetchLoop(
                  (positions, maxWaitTime) => fetchFrom(cluster, nodeId, positions, { ...LIMITS, maxWaitTime }),
                  partitions,
                  {
                    all:
                      leaderless.length > 0 || this.#options.byPartition !== undefined
                        ? WAIT_BEFORE_OTHERS_MS
                        : WAIT_MS,
                    some: WAIT_BEFORE_OTHERS_MS,
                  },
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
        if (kafkaError(cause) === 'OFFSET_OUT_OF_RANGE')
          await checkPositions(this.#parts.connection, this.#reading.list(), this.#parts.missing, this.#parts.logLine)
        if (!this.#unreachable) this.#parts.logLine(`Kafka cannot be read (${messageOf(cause)}); retrying`)
        this.#unreachable = true
        await backoff.wait(this.#stopping.signal)
      }
    }
  }

  /** Fetches and handles the partitions of one leader until the subscription stops or the round ends. */
  async #fetchLoop(
    fetch: (positions: FetchPosition[], maxWaitTime: number) => Promise<FetchedPartition[]>,
    partitions: readonly PartitionProgress[],
    mostMs: MostMs,
    roundEnded: AbortSignal,
    backoff: Backoff,
  ): Promise<void> {
    const ahead = new Map(partitions.map((progress) => [progress, progress.next]))
    const gathering = new Gathering(this.#options.gather, partitions, mostMs)
    const startFetch = (): Promise<FetchedPartition[]> => {
      const isMissing = (ends: Offsets): boolean =>
        partitions.some((one) => ahead.get(one)! < (ends[one.of]?.[one.partition] ?? 0))
      const hurry = this.#waiters.some(({ ends }) => isMissing(ends))
      const { partitions: due, waitMs } = gathering.due(performance.now(), hurry)
      const fetching = due.length === 0 ? this.#rests.rest(waitMs, []) : fetch(positionsOf(due, ahead), waitMs)
      fetching.catch(() => undefined)
      return fetching
    }
    let nextFetch = startFetch()
    const ended = AbortSignal.any([this.#stopping.signal, roundEnded])
    const stall = new Progress(partitions.map(({ topic, partition }) => `${topic} ${partition}`).join(', '))
    while (!this.#stopping.signal.aborted && !roundEnded.aborted) {
      const batches = await orAborted(nextFetch, ended)
      if (!batches) return
      backoff.reset()
      if (this.#unreachable && this.#allHaveLeaders) this.#parts.logLine('Kafka can be read again')
      this.#unreachable &&= !this.#allHaveLeaders
      const found = batches.map((batch) => ({
        batch,
        progress: partitions.find(({ topic, partition }) => topic === batch.topic && partition === batch.partition)!,
      }))
      await stall.after(
        found.some(({ batch, progress }) => batch.next > ahead.get(progress)!) ||
          batches.every(({ next, end }) => next >= end),
        this.#stopping.signal,
      )
      gathering.fetched(found, ahead, performance.now())
      for (const { batch, progress } of found) ahead.set(progress, batch.next)
      nextFetch = startFetch()
      for (const { batch, progress } of found) {
        if (batch.next === progress.next || !this.#reading.has(progress)) continue
        const handled = this.#handling.then(() => this.#handle(progress, batch))
        this.#handling = handled.catch(() => undefined)
        await handled
      }
      this.#settle()
    }
  }

  async #handle(progress: PartitionProgress, batch: FetchedPartition): Promise<void> {
    const { records, next } = batch
    const { maxBatch = PAGE_RECORDS, handle } = this.#options
    try {
      requireComplete(progress.of, batch)
      for (let i = 0; i < records.length; i += maxBatch) {
        const logRecords: LogRecord[] = []
        for (const record of records.slice(i, i + maxBatch)) {
          const decoded = this.#parts.decode(progress.of, progress.partition, record, this.#stopping.signal)
          const logRecord = decoded instanceof Promise ? await decoded : decoded
          if (logRecord) logRecords.push(logRecord)
        }
        if (this.#stopping.signal.aborted || !this.#reading.has(progress)) return
        if (logRecords.length > 0) await handle(logRecords)
        progress.next = Number(records[Math.min(i + maxBatch, records.length) - 1]!.offset) + 1
      }
      progress.next = next
    } catch (cause) {
      if (this.#stopping.signal.aborted && cause instanceof InstarError && cause.code === 'log_unavailable') return
      this.#stopping.abort()
      throw new HandlerError('', { cause })
    }
  }

  #settle(): void {
    const settled = this.#waiters.filter(({ ends }) => this.#reading.haveReached(ends))
    this.#waiters = this.#waiters.filter((waiter) => !settled.includes(waiter))
    for (const { resolve } of settled) resolve()
  }

  #leave(): void {
    this.#stopping.abort()
    this.#rests.end()
    this.#parts.connection.close({ abandon: true })
    const cause = this.#failed ? this.#failed.cause : stopped()
    for (const waiter of this.#waiters.splice(0)) waiter.reject(cause)
  }
}

const stopped = (): InstarError => new InstarError('log_unavailable', 'the subscription was stopped')
