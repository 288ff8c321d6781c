/**
 * The event log in one SQLite file. One process at a time opens it for writing and locks the folder. Any number of
 * processes may read it meanwhile; their subscriptions see new records within `POLL_MS`.
 */
import { isLater } from '@instar/events/codec'
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import { setImmediate } from 'node:timers/promises'
import { CUT_TOPICS, cutsOn, requireAllowed } from '../cuts.ts'
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
import { checkCounts, createFolder, openReading, storedCounts } from './file.ts'
import { AppenderServer, RemoteAppender, type Appender } from './remote-appender.ts'
import { schemaWarnings, storedSchemas } from './schemas.ts'
import { RecentRecords, withRecentRecords, type WrittenCall } from './recent-records.ts'
import { WriteQueue, type QueueLimits } from './write-queue.ts'
import { BLOCK } from './blocks.ts'
import { SqliteStore } from './sqlite-store.ts'
import type { DatabaseSync } from 'node:sqlite'
import type { MessagePort } from 'node:worker_threads'

export type EmbeddedOptions = {
  /** The folder of `log.db`, created if it does not exist. */
  folder: string
  /** Partition counts that differ from the flow table's. Fixed when the log is created. */
  partitions?: Partial<Record<Topic, number>>
  /** The schemas of records that may be appended: name → Avro JSON. Stored in the file for readers. */
  schemas?: Readonly<Record<string, string>>
  /** Opens the log for reading, also while another process writes; `append` and `commit` throw `log_read_only`. */
  readOnly?: boolean
  /**
   * Limits of the records waiting to be written; beyond them `append` throws `log_full`. Default: 16,384 records, 64
   * MiB.
   */
  queue?: Partial<QueueLimits>
  /** Receives lines for the process's log. */
  logLine?: (line: string) => void
}

export type EmbeddedLog = EventLog &
  Required<Pick<EventLog, 'starts' | 'cut'>> & {
    /** Every schema on the log: name → Avro JSON. */
    schemas(): Record<string, string>
    /**
     * Lets another thread of this process use the log through the other end of the channel (`openJoinedLog`) until either
     * side closes. Throws `log_read_only` if the log was opened for reading.
     */
    join(port: MessagePort, gatherMs?: number): void
  }

/** Records that a transaction of a cut deletes at most. */
const CUT_STEP = 64 * BLOCK

/** Interval in milliseconds at which a read-only process with subscriptions polls for new records. */
const POLL_MS = 25

/** Throws `data_in_use`, `data_unreadable`, `log_truncated`, `partition_count_changed` or `schema_changed`. */
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
  createFolder(folder)
  const counts = partitionCounts(partitions)
  const queue = await WriteQueue.open(
    { folder, counts, schemas },
    { records: limits?.records ?? 16_384, bytes: limits?.bytes ?? 64 << 20 },
  )
  const db = openReading(folder)
  queue.setSchemas(new Map(storedSchemas(db).map(({ name, id }) => [name, id])))
  const log = new SqliteLog(db, counts, schemas, queue, options.logLine)
  queue.onWritten((calls) => log.written(calls))
  queue.onBroken((error) => log.broken(error))
  if (options.logLine) {
    queue.onLine(options.logLine)
    for (const line of schemaWarnings(db)) options.logLine(line)
  }
  return log
}

/** Opens a log that another thread of this process has open. That thread passes the other end of `port` to `join`. */
export const openJoinedLog = (
  folder: string,
  schemas: Readonly<Record<string, string>>,
  port: MessagePort,
): EmbeddedLog => {
  const db = openReading(folder)
  const appender = new RemoteAppender(port, { onChanged: () => log.changed(), onBroken: (error) => log.broken(error) })
  const log = new SqliteLog(db, storedCounts(db), schemas, appender)
  return log
}

const readOnly = (): InstarError => new InstarError('log_read_only', 'the log was opened for reading')

/** Damaged records of which the console is told, each once. `instar doctor` counts all of them. */
const MAX_REPORTED = 20

const damageReports = (logLine: (line: string) => void): ((record: LogRecord) => void) => {
  const reported = new Set<string>()
  return ({ topic, partition, offset, schema }) => {
    const position = `${topic} ${partition}@${offset}`
    if (reported.has(position) || reported.size >= MAX_REPORTED) return
    reported.add(position)
    logLine(
      `WARNING: the record at ${position} (${schema}) does not match its checksum and is passed over; a copy of the log may have it whole`,
    )
  }
}

class SqliteLog implements EmbeddedLog {
  readonly #db: DatabaseSync
  readonly #counts: PartitionCounts
  readonly #store: SqliteStore
  readonly #appender: Appender | undefined
  readonly #servers = new Set<AppenderServer>()
  readonly #deliveries = new Set<Delivery>()
  readonly #recent: RecentRecords
  /** True in the writing process, which has the lock of the folder. */
  readonly sole: boolean
  readonly sequential = true
  #poll: NodeJS.Timeout | undefined
  #version = 0
  #closed = false
  #closing: Promise<void> | undefined

  constructor(
    db: DatabaseSync,
    counts: PartitionCounts,
    schemas: Readonly<Record<string, string>>,
    appender?: Appender,
    logLine?: (line: string) => void,
  ) {
    this.#recent = new RecentRecords((schema) => (isLater(schema) ? schemas[schema] : undefined))
    this.sole = appender !== undefined
    this.#db = db
    this.#counts = counts
    this.#store = new SqliteStore(db, counts, logLine && damageReports(logLine))
    this.#appender = appender
  }

  append(records: readonly Append[]): Promise<Position[]> {
    return this.#appender?.append(records) ?? Promise.reject(readOnly())
  }

  /** A commit of a group of its own: a transaction like that of an append. */
  probe(): Promise<void> {
    return this.#appender?.commit('probe', [{ topic: 'turns', partition: 0, offset: 0 }]) ?? Promise.reject(readOnly())
  }

  async subscribe(options: SubscribeOptions): Promise<Subscription> {
    this.#check()
    const delivery = new Delivery(
      {
        // Only the thread with the queue is notified of every transaction.
        store: this.#appender instanceof WriteQueue ? withRecentRecords(this.#store, this.#recent) : this.#store,
        yieldToLoop: setImmediate,
        commit: (group, positions) => this.#appender?.commit(group, positions) ?? Promise.reject(readOnly()),
      },
      options,
    )
    this.#deliveries.add(delivery)
    this.#startOrStopPolling()
    const leave = (): void => {
      this.#deliveries.delete(delivery)
      this.#startOrStopPolling()
    }
    delivery.done.then(leave, leave)
    return delivery
  }

  read(topic: Topic, options: ReadOptions = {}): AsyncIterable<LogRecord[]> {
    this.#check()
    return readStore(this.#store, topic, options, async () => {
      await setImmediate()
      this.#check()
    })
  }

  async at({ topic, partition, offset }: Position): Promise<LogRecord | undefined> {
    this.#check()
    return this.#store.at(topic, partition, offset)
  }

  async ends(topics: readonly Topic[]): Promise<Offsets> {
    this.#check()
    return Object.fromEntries(topics.map((topic) => [topic, { ...this.#store.ends(topic) }]))
  }

  async starts(topics: readonly Topic[]): Promise<Offsets> {
    this.#check()
    return Object.fromEntries(topics.map((topic) => [topic, { ...this.#store.starts(topic) }]))
  }

  /** In steps, each a transaction of its own between those of appends. */
  async cut(starts: Offsets): Promise<void> {
    const queue = this.#appender
    if (!queue) throw readOnly()
    if (!(queue instanceof WriteQueue))
      throw new InstarError('not_available', 'the log is cut by the thread that opened it')
    requireAllowed(starts, await cutsOn(this))
    for (const topic of CUT_TOPICS) {
      if (!starts[topic]) continue
      const { from, until } = this.#store.cutEnd(topic, starts[topic])
      for (let at = from; at < until;) await queue.cut(topic, (at = Math.min(until, at + CUT_STEP)))
    }
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

  /** A transaction ended. `calls`: the calls that it wrote; null: unknown. */
  written(calls: readonly WrittenCall[] | null): void {
    if (!calls) {
      this.#recent.clear()
      return this.changed()
    }
    const reached = new Map<Topic, number>()
    for (const { cursors } of this.#deliveries)
      for (const { topic, cursor } of cursors) reached.set(topic, Math.min(cursor, reached.get(topic) ?? Infinity))
    const followed = new Set(reached.keys())
    for (const call of calls) this.#recent.add(call, followed)
    for (const [topic, offset] of reached) this.#recent.forgetBelow(topic, offset)
    this.changed(calls.every(({ records }) => records.every(({ topic }) => topic === 'turns')) ? 'turns' : 'others')
  }

  /** New records may be readable, of turns alone or of others too. */
  changed(what: 'turns' | 'others' = 'others'): void {
    for (const delivery of this.#deliveries) delivery.changed.raise()
    for (const server of this.#servers) server.changed(what)
  }

  join(port: MessagePort, gatherMs?: number): void {
    this.#check()
    if (!this.#appender) throw readOnly()
    const server = new AppenderServer(port, this.#appender, () => this.#servers.delete(server), gatherMs)
    this.#servers.add(server)
  }

  /** Ends all subscriptions, also of a process that does not write, since the process must exit. */
  broken(error: InstarError): void {
    for (const delivery of this.#deliveries) delivery.fail(error)
    for (const server of this.#servers) server.broken(error)
  }

  /** Stops subscriptions first, so that running handlers may still read, append and commit. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#deliveries].map((delivery) => delivery.stop()))
    this.#closed = true
    clearInterval(this.#poll)
    this.#db.close()
    await this.#appender?.close()
    for (const server of this.#servers) server.close()
  }

  /** A read-only process polls while it has subscriptions. */
  #startOrStopPolling(): void {
    if (this.#appender) return
    if (this.#deliveries.size === 0) {
      clearInterval(this.#poll)
      this.#poll = undefined
    } else {
      this.#poll ??= setInterval(() => this.#pollOnce(), POLL_MS)
    }
  }

  #pollOnce(): void {
    const version = this.#store.version()
    if (version === this.#version) return
    this.#version = version
    this.changed()
  }

  #check(): void {
    if (this.#closed) throw new InstarError('log_unavailable', 'the log is closed')
  }
}
