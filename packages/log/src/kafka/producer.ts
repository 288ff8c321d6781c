/**
 * An idempotent producer on kafkajs's connections. kafkajs's own producer loses acknowledged records (README.md).
 *
 * - The log chooses the partition, so that a retry writes to the same one.
 * - At most one produce request per leader is in flight; later calls wait in a bounded queue. Batches whose partition
 *   has no leader, too few in-sync replicas or another error of its own, or is fenced by a read, wait in their own order
 *   (waiting-batches.ts) without blocking other partitions.
 * - A batch that the response does not acknowledge is sent again before any later record of its partition.
 * - After a failure all requests settle, the connections are closed, and the same batches are sent again with the same
 *   producer id and sequence numbers, so that the broker recognizes duplicates. If the broker rejects the id, a new one
 *   is requested, and a record may be stored twice; readers drop duplicates by record id.
 * - A write needs the acknowledgement of all in-sync replicas and is retried without limit. Only the queue's limits and
 *   `close` reject calls.
 */
import { InstarError } from '@instar/events/errors'
import { AppendQueue } from './append-queue.ts'
import { kafkaError, messageOf, type KafkaConnection } from './client.ts'
import type { TopicPartition } from './fetch.ts'
import { ProduceSession } from './produce-session.ts'
import {
  DUPLICATE,
  NEW_ID_REQUIRED,
  NOT_RETRYABLE,
  STALE_LEADER,
  type OutgoingRecord,
  type ProducerBatch,
  type QueuedRecord,
  type QueueLimits,
  type Refusal,
} from './producer-batch.ts'
import { EncodeError } from './record-batch.ts'
import { kafkaBackoff } from './retry.ts'
import { WaitingBatches } from './waiting-batches.ts'

export class Producer {
  readonly #connection: KafkaConnection
  readonly #queue: AppendQueue
  readonly #session = new ProduceSession()
  readonly #logLine: (line: string) => void
  readonly #waiting = new WaitingBatches()
  readonly #ending = new AbortController()
  #running = false
  #closing = false
  #drained: (() => void) | undefined

  constructor(connection: KafkaConnection, limits: QueueLimits, logLine: (line: string) => void) {
    this.#connection = connection
    this.#queue = new AppendQueue(limits)
    this.#logLine = logLine
  }

  /**
   * Resolves with the offsets in the order of the records. Rejects with `log_full` if the queue has no room for all.
   */
  send(records: readonly OutgoingRecord[]): Promise<number[]> {
    if (this.#closing) return Promise.reject(unavailable('the log is closed'))
    if (records.length === 0) return Promise.resolve([])
    const full = this.#queue.full(records)
    if (full) return Promise.reject(full)
    const offsets = this.#queue.add(records)
    this.#waiting.wake()
    if (!this.#running) {
      this.#running = true
      queueMicrotask(() => void this.#run())
    }
    return offsets
  }

  /** Records appended to these partitions from now on are not sent before `reading` has settled. */
  fence(partitions: readonly TopicPartition[], reading: Promise<unknown>): void {
    this.#waiting.fence(partitions, reading)
  }

  /** Writes all waiting records; rejects those that are not written within `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    this.#closing = true
    const timeout = setTimeout(() => {
      this.#ending.abort()
      this.#waiting.wake()
    }, timeoutMs)
    if (this.#running)
      await new Promise<void>((resolve) => {
        this.#drained = resolve
      })
    clearTimeout(timeout)
    this.#ending.abort()
    this.#connection.close()
  }

  async #run(): Promise<void> {
    while (!this.#queue.empty || !this.#waiting.empty) {
      if (this.#ending.signal.aborted) this.#queue.failAll(this.#waiting.takeAll(), unavailable(CLOSED_BEFORE_WRITTEN))
      if (this.#queue.empty) await this.#waiting.untilDue()
      const records = await this.#queue.prepare(this.#queue.take(), this.#ending.signal)
      const free = batchesOf(records).filter((batch) => !this.#waiting.holdIfBlocked(batch))
      const due = this.#waiting.takeDue()
      if (due.some(({ blocked }) => blocked !== undefined))
        await this.#connection.use((cluster) => cluster.refreshMetadata()).catch(() => undefined)
      await this.#write([...due, ...free])
    }
    this.#running = false
    this.#drained?.()
  }

  /** Resolves when every record of the batches is written, rejected, or waits for its partition. Never rejects. */
  async #write(batches: readonly ProducerBatch[]): Promise<void> {
    let left = batches.filter((batch) => !this.#waiting.holdBehindReturned(batch))
    const backoff = kafkaBackoff()
    let reported = false
    for (let attempt = 1; left.length > 0; attempt++) {
      if (this.#ending.signal.aborted) return this.#queue.failAll(left, unavailable(CLOSED_BEFORE_WRITTEN))
      let failure: unknown
      const before = left.length
      try {
        const refusals = await this.#connection.use((cluster) =>
          this.#session.send(cluster, left, (batch, records, base) => this.#written(batch, records, base)),
        )
        failure = await this.#settle(refusals, attempt)
        left = this.#holdBlocked(left.filter(({ records }) => records.length > 0))
      } catch (cause) {
        failure = cause
        left = left.filter(({ records }) => records.length > 0)
      }
      if (left.length === 0) break
      if (failure instanceof EncodeError) return this.#divide(left, failure)
      if (failure !== undefined && !reported)
        this.#logLine(`Kafka does not accept records (${messageOf(failure)}); ${this.#queue.unwritten} are waiting`)
      reported ||= failure !== undefined
      if (failure !== undefined || left.length === before) await backoff.wait(this.#ending.signal)
    }
    if (reported) this.#logLine('Kafka accepts records again')
  }

  /**
   * Handles what brokers refused, each partition on its own: records that never succeed are found and rejected, other
   * batches are sent again at once or marked as blocked. Returns the error after which a batch is sent again at once.
   */
  async #settle(refusals: readonly Refusal[], attempt: number): Promise<unknown> {
    let failure: unknown
    for (const { batch, error } of refusals) {
      const code = kafkaError(error) ?? ''
      if (NOT_RETRYABLE.has(code)) {
        const records = batch.records.splice(0)
        await this.#divide([{ topic: batch.topic, partition: batch.partition, records }], error)
      } else if (code === DUPLICATE)
        this.#queue.failAll([{ records: batch.records.splice(0) }], unavailable(OFFSETS_UNKNOWN))
      else if (NEW_ID_REQUIRED.has(code)) {
        this.#session.reset()
        failure ??= error
      } else if (STALE_LEADER.has(code) && attempt <= LEADER_TRIES) {
        failure ??= error
        await this.#connection.use((cluster) => cluster.refreshMetadata()).catch(() => undefined)
      } else batch.blocked = messageOf(error)
    }
    return failure
  }

  /** Queues the batches whose partition takes no records, reports them, and returns the others. */
  #holdBlocked(batches: readonly ProducerBatch[]): ProducerBatch[] {
    for (const [why, blocked] of Map.groupBy(batches, (batch) => batch.blocked)) {
      if (why === undefined || !this.#waiting.returnBlocked(blocked)) continue
      const names = blocked.map(({ topic, partition }) => `${topic} ${partition}`).join(', ')
      this.#logLine(`${names}: ${why}; appends to it wait, other partitions are written`)
    }
    return batches.filter((batch) => batch.blocked === undefined)
  }

  #written(batch: ProducerBatch, records: QueuedRecord[], baseOffset: number): void {
    this.#waiting.answered(batch)
    if (baseOffset < 0) this.#queue.failAll([{ records }], unavailable('the broker did not return the offsets'))
    else this.#queue.complete(records, baseOffset)
  }

  /** Finds the record that the broker rejects: writes each partition on its own, then halves of its batch. */
  async #divide(batches: readonly ProducerBatch[], cause: unknown): Promise<void> {
    for (const { topic, partition, records } of batches) {
      if (batches.length > 1) await this.#write([{ topic, partition, records }])
      else if (records.length === 1)
        this.#queue.fail(
          records[0]!,
          new InstarError(
            'bad_record',
            `${cause instanceof EncodeError ? 'the record cannot be encoded' : 'Kafka rejects the record'}: ${messageOf(cause)}`,
            { topic },
            { cause },
          ),
        )
      else {
        const half = records.length >> 1
        await this.#write([{ topic, partition, records: records.slice(0, half) }])
        await this.#write([{ topic, partition, records: records.slice(half) }])
      }
    }
  }
}

/** One batch for each partition, in the order of the records. */
const batchesOf = (records: readonly QueuedRecord[]): ProducerBatch[] =>
  [...Map.groupBy(records, ({ topic, partition }) => `${topic}/${partition}`).values()].map((ofPartition) => ({
    topic: ofPartition[0]!.topic,
    partition: ofPartition[0]!.partition,
    records: ofPartition,
  }))

/** Attempts with newer metadata before a partition counts as blocked. */
const LEADER_TRIES = 3
const OFFSETS_UNKNOWN = 'the broker has these records, but no longer their offsets'
const CLOSED_BEFORE_WRITTEN = 'the log was closed before the brokers acknowledged the records'
const unavailable = (reason: string): InstarError =>
  new InstarError('log_unavailable', `the log cannot be written: ${reason}`)
