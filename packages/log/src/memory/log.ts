/**
 * An event log in memory, for unit tests and simulations. Each step is a microtask and no timer runs, so that the order
 * of calls determines the order of events.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { CUT_TOPICS, cutsOn, requireAllowed } from '../cuts.ts'
import { Delivery } from '../delivery.ts'
import { partitionCounts, partitionOf } from '../partition.ts'
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
import { readStore } from '../reading.ts'
import { checkAppend } from '../record.ts'
import { soleAssignment } from '../sole-assignment.ts'
import { MemoryStore } from './store.ts'

type MemoryOptions = {
  partitions?: Partial<Record<Topic, number>>
  /** The records of an earlier log to continue. Throws `partition_count_changed` if the counts differ. */
  store?: MemoryStore
  /** Limits of the records that wait for the microtask that stores them. Default: none. */
  queue?: { records?: number; bytes?: number }
}

export type MemoryLog = EventLog & { readonly store: MemoryStore }

type AppendCall = { records: readonly Append[]; bytes: number; resolve(positions: Position[]): void }

const microtask = (): Promise<void> => Promise.resolve()

export const openMemoryLog = ({ partitions, store, queue }: MemoryOptions = {}): MemoryLog => {
  const counts = partitionCounts(store && !partitions ? store.counts : partitions)
  if (store) {
    for (const [topic, count] of Object.entries(counts)) {
      const stored = store.counts[topic as Topic]
      if (stored !== count)
        throw new InstarError(
          'partition_count_changed',
          `${topic} has ${stored} partitions on this log, ${count} are configured`,
          { topic, stored, configured: count },
        )
    }
  }
  return new ArrayLog(store ?? new MemoryStore(counts), {
    records: queue?.records ?? Infinity,
    bytes: queue?.bytes ?? Infinity,
  })
}

class ArrayLog implements MemoryLog {
  readonly sole = true
  readonly sequential = true
  readonly store: MemoryStore
  readonly #limits: { records: number; bytes: number }
  readonly #deliveries = new Set<Delivery>()
  #waiting: AppendCall[] = []
  #records = 0
  #bytes = 0
  #closed = false

  constructor(store: MemoryStore, limits: { records: number; bytes: number }) {
    this.store = store
    this.#limits = limits
  }

  async append(records: readonly Append[]): Promise<Position[]> {
    this.#check()
    records.forEach(checkAppend)
    if (records.length === 0) return []
    const bytes = records.reduce((sum, { payload }) => sum + payload.length, 0)
    if (
      this.#records > 0 &&
      (this.#records + records.length > this.#limits.records || this.#bytes + bytes > this.#limits.bytes)
    ) {
      throw new InstarError('log_full', `${this.#records} records (${this.#bytes} bytes) are waiting to be written`, {
        records: this.#records,
        bytes: this.#bytes,
      })
    }
    this.#records += records.length
    this.#bytes += bytes
    return new Promise((resolve) => {
      if (this.#waiting.push({ records, bytes, resolve }) === 1) queueMicrotask(() => this.#flush())
    })
  }

  async subscribe(options: SubscribeOptions): Promise<Subscription> {
    this.#check()
    const delivery = new Delivery(
      { store: this.store, yieldToLoop: microtask, commit: (group, positions) => this.#commit(group, positions) },
      options,
    )
    this.#deliveries.add(delivery)
    const leave = (): void => {
      this.#deliveries.delete(delivery)
    }
    delivery.done.then(leave, leave)
    return delivery
  }

  read(topic: Topic, options: ReadOptions = {}): AsyncIterable<LogRecord[]> {
    this.#check()
    return readStore(this.store, topic, options, microtask)
  }

  async at({ topic, partition, offset }: Position): Promise<LogRecord | undefined> {
    this.#check()
    return this.store.at(topic, partition, offset)
  }

  async ends(topics: readonly Topic[]): Promise<Offsets> {
    this.#check()
    return Object.fromEntries(topics.map((topic) => [topic, { ...this.store.ends(topic) }]))
  }

  async starts(topics: readonly Topic[]): Promise<Offsets> {
    this.#check()
    return Object.fromEntries(topics.map((topic) => [topic, { ...this.store.starts(topic) }]))
  }

  async cut(starts: Offsets): Promise<void> {
    requireAllowed(starts, await cutsOn(this))
    for (const topic of CUT_TOPICS) if (starts[topic]) this.store.cut(topic, starts[topic])
  }

  async joinGroup(): Promise<PartitionAssignment> {
    this.#check()
    return soleAssignment()
  }

  partitions(topic: Topic): number {
    return this.store.counts[topic]
  }

  /** Handlers that run may still read, append and commit. */
  async close(): Promise<void> {
    await Promise.all([...this.#deliveries].map((delivery) => delivery.stop()))
    this.#closed = true
    this.#flush()
  }

  async #commit(group: string, positions: readonly Position[]): Promise<void> {
    this.#check()
    for (const position of positions) this.store.setCommitted(group, position)
  }

  #flush(): void {
    const calls = this.#waiting
    if (calls.length === 0) return
    this.#waiting = []
    this.#records = 0
    this.#bytes = 0
    for (const { records, resolve } of calls)
      resolve(records.map((record) => this.store.add(record, partitionOf(record.key, this.store.counts[record.topic]))))
    for (const delivery of this.#deliveries) delivery.changed.raise()
  }

  #check(): void {
    if (this.#closed) throw new InstarError('log_unavailable', 'the log is closed')
  }
}
