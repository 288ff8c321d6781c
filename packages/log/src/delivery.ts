/** A subscription on a `Store`: reads pages and passes batches of one partition to the handler, one call at a time. */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { LogRecord, Position, SubscribeOptions, Subscription } from './port.ts'
import { cursorOf, endOf, PAGE_BYTES, PAGE_RECORDS, requireHeld, startsOf, unreadFrom } from './reading.ts'
import { Signal } from './signal.ts'
import type { Store } from './store.ts'

type TopicProgress = {
  topic: Topic
  /** The start offset of each partition; Infinity: it is not delivered. */
  starts: readonly number[]
  /** All records of the topic below this offset were handled. */
  cursor: number
}

type CaughtUpWaiter = { ends: ReadonlyMap<Topic, number>; resolve(): void; reject(cause: unknown): void }

type DeliveryParts = {
  store: Store
  /** Yields to the event loop between two pages. */
  yieldToLoop(): Promise<void>
  commit(group: string, positions: readonly Position[]): Promise<void>
}

export class Delivery implements Subscription {
  readonly done: Promise<void>
  /** The adapter raises it when new records are readable. */
  readonly changed = new Signal()
  readonly #parts: DeliveryParts
  readonly #options: SubscribeOptions
  readonly #progress: TopicProgress[]
  readonly #maxBatch: number
  #waiters: CaughtUpWaiter[] = []
  /** What `take` and `release` change, between two pages. */
  #changes: { apply(): void; reject(cause: unknown): void }[] = []
  #stopping = false
  #failed: { cause: unknown } | undefined
  /** The log's error that ended the subscription. */
  #ended: { cause: unknown } | undefined
  readonly #idle: Promise<void>

  constructor(parts: DeliveryParts, options: SubscribeOptions) {
    const { store } = parts
    this.#parts = parts
    this.#options = options
    this.#maxBatch = options.maxBatch ?? PAGE_RECORDS
    this.#progress = options.topics.map((topic) => {
      const ends = store.ends(topic)
      const end = endOf(topic, ends)
      const starts =
        topic === options.byPartition
          ? ends.map(() => Infinity)
          : options.from === 'committed'
            ? store.committed(options.group, topic)
            : startsOf(topic, options.from === 'start' ? {} : (options.from[topic] ?? {}), ends)
      requireHeld(store, topic, starts)
      return { topic, starts, cursor: topic === options.byPartition ? end : cursorOf(store, topic, starts, end) }
    })
    const ended = Promise.withResolvers<void>()
    this.done = ended.promise
    this.#idle = this.#run()
      .then(ended.resolve, (cause: unknown) => {
        this.#failed = { cause }
        ended.reject(cause)
      })
      .then(() => this.#leave())
  }

  /** The offset of each topic below which all records were handled. */
  get cursors(): readonly { readonly topic: Topic; readonly cursor: number }[] {
    return this.#progress
  }

  commit(positions: readonly Position[]): Promise<void> {
    return this.#parts.commit(this.#options.group, positions)
  }

  caughtUp(): Promise<void> {
    const refusal = this.#refusal()
    if (refusal) return Promise.reject(refusal.cause)
    const { store } = this.#parts
    if (this.#progress.every(({ topic, cursor }) => cursor >= store.end(topic))) return Promise.resolve()
    const ends = new Map(this.#progress.map(({ topic }) => [topic, store.end(topic)]))
    return new Promise((resolve, reject) => {
      this.#waiters.push({ ends, resolve, reject })
      this.changed.raise()
    })
  }

  take(partition: number, from: () => number): Promise<void> {
    return this.#change((progress) => {
      const { store } = this.#parts
      const { topic, starts } = progress
      const wanted = startsOf(topic, { [partition]: from() }, store.ends(topic))
      requireHeld(store, topic, wanted, partition)
      const start = wanted[partition]!
      progress.starts = starts.map((one, i) => (i === partition ? start : Math.max(one, progress.cursor)))
      progress.cursor = Math.min(progress.cursor, store.firstAt(topic, partition, start) ?? progress.cursor)
    })
  }

  release(partition: number): void {
    this.#change((progress) => {
      progress.starts = progress.starts.map((one, i) => (i === partition ? Infinity : one))
    }).catch(() => undefined)
  }

  /** Resolves when what was on the log at the change has been handled. */
  #change(change: (progress: TopicProgress) => void): Promise<void> {
    const progress = this.#progress.find(({ topic }) => topic === this.#options.byPartition)
    if (!progress) throw new InstarError('internal', 'the subscription has no topic by partition')
    const refusal = this.#refusal()
    if (refusal) return Promise.reject(refusal.cause)
    return new Promise((resolve, reject) => {
      const apply = (): void => {
        try {
          change(progress)
          this.caughtUp().then(resolve, reject)
        } catch (cause) {
          reject(cause)
        }
      }
      this.#changes.push({ apply, reject })
      this.changed.raise()
    })
  }

  async stop(): Promise<void> {
    this.#stopping = true
    this.changed.raise()
    await this.#idle
  }

  /** Ends the subscription with an error of the log: `done` rejects with `cause`. */
  fail(cause: unknown): void {
    if (this.#stopping) return
    this.#ended = { cause }
    this.#stopping = true
    this.changed.raise()
  }

  async #run(): Promise<void> {
    await this.#parts.yieldToLoop()
    while (!this.#stopping) {
      let more = false
      for (const change of this.#changes.splice(0)) change.apply()
      for (const progress of this.#progress) more = (await this.#page(progress)) || more
      this.#settle()
      await (more ? this.#parts.yieldToLoop() : this.changed.wait())
    }
    if (this.#ended) throw this.#ended.cause
  }

  /** Handles one page of a topic. Returns false if there was none. */
  async #page(progress: TopicProgress): Promise<boolean> {
    const { topic, starts } = progress
    const end = this.#parts.store.end(topic)
    if (progress.cursor >= end || this.#stopping) return false
    const page = this.#parts.store.scan(topic, {
      from: progress.cursor,
      to: end,
      maxRecords: Math.max(this.#maxBatch, PAGE_RECORDS),
      maxBytes: PAGE_BYTES,
    })
    if (page.cut) requireHeld(this.#parts.store, topic, unreadFrom(starts, progress.cursor))
    const partitions = new Map<number, LogRecord[]>()
    for (const record of page.records) {
      if (record.offset < starts[record.partition]!) continue
      const batch = partitions.get(record.partition)
      if (batch) batch.push(record)
      else partitions.set(record.partition, [record])
    }
    for (const records of partitions.values()) {
      for (let i = 0; i < records.length; i += this.#maxBatch) {
        if (this.#stopping) return false
        await this.#options.handle(records.slice(i, i + this.#maxBatch))
      }
    }
    progress.cursor = page.next
    return true
  }

  #settle(): void {
    const handled = new Map(this.#progress.map(({ topic, cursor }) => [topic, cursor]))
    this.#waiters = this.#waiters.filter(({ ends, resolve }) => {
      const waits = [...ends].some(([topic, end]) => handled.get(topic)! < end)
      if (!waits) resolve()
      return waits
    })
  }

  #leave(): void {
    this.#stopping = true
    const cause = this.#failed ? this.#failed.cause : stopped()
    for (const waiter of [...this.#waiters.splice(0), ...this.#changes.splice(0)]) waiter.reject(cause)
  }

  /** Why nothing is delivered any more. */
  #refusal(): { cause: unknown } | undefined {
    return this.#failed ?? this.#ended ?? (this.#stopping ? { cause: stopped() } : undefined)
  }
}

const stopped = (): InstarError => new InstarError('log_unavailable', 'the subscription was stopped')
