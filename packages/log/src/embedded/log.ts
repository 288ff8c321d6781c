/**
 * The event log in one SQLite file. The process that opens it for writing holds the folder; any number of
 * processes read it meanwhile, and follow it within `POLL_MS`.
 */
import { isLater } from '@instar/events/codec'
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { setImmediate } from 'node:timers/promises'
import { Delivery } from '../delivery.ts'
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
import { readStore } from '../reading.ts'
import { soleAssignment } from '../sole-assignment.ts'
import { checkCounts, makeFolder, openReading, storedCounts, storedSchemas } from './file.ts'
import { Holder, RemoteAppender, type Appender } from './joined.ts'
import { Latest, withLatest, type Written } from './latest.ts'
import { Queue, type QueueLimits } from './queue.ts'
import { Rows } from './rows.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { MessagePort } from 'node:worker_threads'

export type EmbeddedOptions = {
  /** Made when it does not exist; holds `log.db`. */
  folder: string
  /** Where they differ from the flow table's. The first opening decides for ever. */
  partitions?: Partial<Record<Topic, number>>
  /** Schema name → Avro JSON of the records that may be appended. Stored in the file for readers. */
  schemas?: Readonly<Record<string, string>>
  /** Read while another process writes; `append` and `commit` are refused with `log_read_only`. */
  readOnly?: boolean
  /** How much may wait to be written before `log_full`. Default: 16,384 records, 64 MiB. */
  queue?: Partial<QueueLimits>
}

export type EmbeddedLog = EventLog & {
  /** Every schema on the log: name → Avro JSON. */
  schemas(): Record<string, string>
  /**
   * Lets another thread of this process use the log through the other end of the channel (`openJoinedLog`), until
   * either side closes. Refused with `log_read_only` where this opening cannot write.
   */
  join(port: MessagePort): void
}

/** Interval at which a read-only process polls for new records while it follows. */
const POLL_MS = 25

/** Throws `data_in_use`, `data_unreadable`, `partition_count_changed` or `schema_changed`. */
export const openEmbeddedLog = async (options: EmbeddedOptions): Promise<EmbeddedLog> => {
  const { folder, partitions, schemas = {}, queue: limits } = options
  if (options.readOnly) {
    const db = openReading(folder)
    try {
      const counts = storedCounts(db)
      checkCounts(counts, partitionCounts({ ...counts, ...partitions }))
      return new SqliteLog(db, counts, schemas)
    } catch (cause) {
      db.close()
      throw cause
    }
  }
  makeFolder(folder)
  const counts = partitionCounts(partitions)
  const queue = await Queue.open(
    { folder, counts, schemas },
    { records: limits?.records ?? 16_384, bytes: limits?.bytes ?? 64 << 20 },
  )
  const db = openReading(folder)
  queue.knowSchemas(new Map(storedSchemas(db).map(({ name, id }) => [name, id])))
  const log = new SqliteLog(db, counts, schemas, queue)
  queue.onWritten((what) => log.wrote(what))
  queue.onBroken((error) => log.broke(error))
  return log
}

/**
 * Opens the log that another thread of this process holds; that thread has passed the other end of `port` to `join`.
 * Reads the file itself.
 */
export const openJoinedLog = (
  folder: string,
  schemas: Readonly<Record<string, string>>,
  port: MessagePort,
): EmbeddedLog => {
  const db = openReading(folder)
  const appender = new RemoteAppender(port, { onNews: () => log.changed(), onBroken: (error) => log.broke(error) })
  const log = new SqliteLog(db, storedCounts(db), schemas, appender)
  return log
}

const readOnly = (): InstarError => new InstarError('log_read_only', 'the log was opened for reading')

class SqliteLog implements EmbeddedLog {
  readonly #db: DatabaseSync
  readonly #counts: PartitionCounts
  readonly #rows: Rows
  readonly #appender: Appender | undefined
  readonly #holders = new Set<Holder>()
  readonly #deliveries = new Set<Delivery>()
  readonly #latest: Latest
  /** The writing process holds the lock of the folder. */
  readonly sole: boolean
  #poll: NodeJS.Timeout | undefined
  #version = 0
  #closed = false
  #closing: Promise<void> | undefined

  constructor(
    db: DatabaseSync,
    counts: PartitionCounts,
    schemas: Readonly<Record<string, string>>,
    appender?: Appender,
  ) {
    this.#latest = new Latest((schema) => (isLater(schema) ? schemas[schema] : undefined))
    this.sole = appender !== undefined
    this.#db = db
    this.#counts = counts
    this.#rows = new Rows(db, counts)
    this.#appender = appender
  }

  append(records: readonly Append[]): Promise<Position[]> {
    return this.#appender?.append(records) ?? Promise.reject(readOnly())
  }

  async subscribe(options: SubscribeOptions): Promise<Subscription> {
    this.#check()
    const delivery = new Delivery(
      {
        // Only the thread that holds the file is notified of every transaction.
        store: this.#appender instanceof Queue ? withLatest(this.#rows, this.#latest) : this.#rows,
        breathe: setImmediate,
        commit: (group, positions) => this.#appender?.commit(group, positions) ?? Promise.reject(readOnly()),
      },
      options,
    )
    this.#deliveries.add(delivery)
    this.#watch()
    const leave = (): void => {
      this.#deliveries.delete(delivery)
      this.#watch()
    }
    delivery.done.then(leave, leave)
    return delivery
  }

  read(topic: Topic, options: ReadOptions = {}): AsyncIterable<LogRecord[]> {
    this.#check()
    return readStore(this.#rows, topic, options, async () => {
      await setImmediate()
      this.#check()
    })
  }

  async at({ topic, partition, offset }: Position): Promise<LogRecord | undefined> {
    this.#check()
    return this.#rows.at(topic, partition, offset)
  }

  async ends(topics: readonly Topic[]): Promise<Offsets> {
    this.#check()
    return Object.fromEntries(topics.map((topic) => [topic, { ...this.#rows.ends(topic) }]))
  }

  async joinGroup(): Promise<PartitionAssignment> {
    this.#check()
    return soleAssignment()
  }

  partitions(topic: Topic): number {
    return this.#counts[topic]
  }

  schemas(): Record<string, string> {
    this.#check()
    return Object.fromEntries(storedSchemas(this.#db).map(({ name, avro }) => [name, avro]))
  }

  /** `what` null: it is not known what a transaction has written. */
  wrote(what: readonly Written[] | null): void {
    if (!what) {
      this.#latest.clear()
      return this.changed()
    }
    const reached = new Map<Topic, number>()
    for (const { cursors } of this.#deliveries)
      for (const { topic, cursor } of cursors) reached.set(topic, Math.min(cursor, reached.get(topic) ?? Infinity))
    const followed = new Set(reached.keys())
    for (const call of what) this.#latest.add(call, followed)
    for (const [topic, offset] of reached) this.#latest.forgetBelow(topic, offset)
    this.changed()
  }

  /** Records may be new. */
  changed(): void {
    for (const delivery of this.#deliveries) delivery.changed.raise()
    for (const holder of this.#holders) holder.news()
  }

  join(port: MessagePort): void {
    this.#check()
    if (!this.#appender) throw readOnly()
    const holder = new Holder(port, this.#appender, () => this.#holders.delete(holder))
    this.#holders.add(holder)
  }

  /** Ends every subscription, also in a process that never writes: the process has to end. */
  broke(error: InstarError): void {
    for (const delivery of this.#deliveries) delivery.fail(error)
    for (const holder of this.#holders) holder.broke(error)
  }

  /** Handlers that run may still read, append and commit. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#deliveries].map((delivery) => delivery.stop()))
    this.#closed = true
    clearInterval(this.#poll)
    this.#db.close()
    await this.#appender?.close()
    for (const holder of this.#holders) holder.close()
  }

  /** Only a read-only process polls, and only while it has subscribers. */
  #watch(): void {
    if (this.#appender) return
    if (this.#deliveries.size === 0) {
      clearInterval(this.#poll)
      this.#poll = undefined
    } else {
      this.#poll ??= setInterval(() => this.#look(), POLL_MS)
    }
  }

  #look(): void {
    const version = this.#rows.version()
    if (version === this.#version) return
    this.#version = version
    this.changed()
  }

  #check(): void {
    if (this.#closed) throw new InstarError('log_unavailable', 'the log is closed')
  }
}
