/**
 * Batches that a producer cannot send yet, queued by partition in the order of their appends: the partition takes
 * none (no leader, too few in-sync replicas), or a read of it (a fence) has not determined its end yet. Batches of other partitions are not delayed.
 */
import { sleep } from '../backoff.ts'
import type { TopicPartition } from './fetch.ts'
import type { ProducerBatch } from './producer-batch.ts'

/** Milliseconds between two attempts to write to a blocked partition. */
const RETRY_BLOCKED_MS = 500

/** `fenced`: a read that started before the append has not determined its end yet. */
type WaitingBatch = { batch: ProducerBatch; fenced: boolean }
/** `returned`: the number of batches at the head that were put back since one was taken. */
type PartitionQueue = { waiting: WaitingBatch[]; returned: number; blocked: boolean }

const nameOf = ({ topic, partition }: TopicPartition): string => `${topic}/${partition}`

export class WaitingBatches {
  readonly #queues = new Map<string, PartitionQueue>()
  /** Reads in progress by partition. Batches appended after their start are not sent before they settle. */
  readonly #fences = new Map<string, Set<Promise<unknown>>>()
  /** Partitions reported as blocked. */
  readonly #reported = new Set<string>()
  /** When blocked partitions are tried again, by `performance.now()`. */
  #retryAt = 0
  #woken = Promise.withResolvers<void>()

  get empty(): boolean {
    return this.#queues.size === 0
  }

  /** Ends a wait of `untilDue`. */
  wake(): void {
    this.#woken.resolve()
  }

  /** Holds batches that are appended to these partitions from now on until `reading` has settled. */
  fence(partitions: readonly TopicPartition[], reading: Promise<unknown>): void {
    for (const name of partitions.map(nameOf)) {
      const fences = this.#fences.get(name) ?? new Set()
      this.#fences.set(name, fences.add(reading))
      const lift = (): void => {
        fences.delete(reading)
        if (fences.size === 0 && this.#fences.get(name) === fences) this.#fences.delete(name)
      }
      reading.then(lift, lift)
    }
  }

  /** Queues a new batch and returns true if its partition is fenced or has waiting batches. */
  holdIfBlocked(batch: ProducerBatch): boolean {
    const name = nameOf(batch)
    const fences = this.#fences.get(name)
    if (!fences && !this.#queues.has(name)) return false
    const waiting: WaitingBatch = { batch, fenced: fences !== undefined }
    this.#queueOf(name).waiting.push(waiting)
    if (fences) {
      void Promise.allSettled(fences).then(() => {
        waiting.fenced = false
        this.wake()
      })
    }
    return true
  }

  /** Queues the rest of a divided batch and returns true if the part before it was returned. */
  holdBehindReturned(batch: ProducerBatch): boolean {
    const queue = this.#queues.get(nameOf(batch))
    if (!queue || queue.returned === 0) return false
    queue.waiting.splice(queue.returned++, 0, { batch, fenced: false })
    return true
  }

  /**
   * Puts back batches whose partition is blocked, before the waiting ones. Returns whether one is not reported yet.
   */
  returnBlocked(batches: readonly ProducerBatch[]): boolean {
    const unreported = batches.some((batch) => !this.#reported.has(nameOf(batch)))
    for (const batch of batches) {
      const queue = this.#queueOf(nameOf(batch))
      queue.waiting.splice(queue.returned++, 0, { batch, fenced: false })
      queue.blocked = true
      this.#reported.add(nameOf(batch))
    }
    this.#retryAt = performance.now() + RETRY_BLOCKED_MS
    return unreported
  }

  /** A partition acknowledged a batch: if it is blocked again, that is reported again. */
  answered(partition: TopicPartition): void {
    if (this.#reported.size > 0) this.#reported.delete(nameOf(partition))
  }

  /** Resolves when `takeDue` returns a batch, at once if no batch waits, or at `wake`. Timers may fire early. */
  async untilDue(): Promise<void> {
    this.#woken = Promise.withResolvers()
    let woken = false
    while (!woken && !this.empty && this.#due().length === 0) {
      const waited = new AbortController()
      const blocked = [...this.#queues.values()].some((queue) => queue.blocked)
      const retry = blocked
        ? sleep(Math.max(1, Math.ceil(this.#retryAt - performance.now())), waited.signal)
        : new Promise<never>(() => undefined)
      woken = await Promise.race([this.#woken.promise.then(() => true), retry.then(() => false)])
      waited.abort()
    }
  }

  /** Removes and returns the first batch of each partition that may be sent now. */
  takeDue(): ProducerBatch[] {
    return this.#due().map(([name, queue]) => {
      const { batch } = queue.waiting.shift()!
      queue.returned = 0
      queue.blocked = false
      if (queue.waiting.length === 0) this.#queues.delete(name)
      return batch
    })
  }

  /** Removes and returns all batches. */
  takeAll(): ProducerBatch[] {
    const batches = [...this.#queues.values()].flatMap(({ waiting }) => waiting.map(({ batch }) => batch))
    this.#queues.clear()
    return batches
  }

  #queueOf(name: string): PartitionQueue {
    const queue = this.#queues.get(name) ?? { waiting: [], returned: 0, blocked: false }
    this.#queues.set(name, queue)
    return queue
  }

  #due(): [string, PartitionQueue][] {
    return [...this.#queues].filter(
      ([, { waiting, blocked }]) => !waiting[0]!.fenced && (!blocked || performance.now() >= this.#retryAt),
    )
  }
}
