/**
 * The event log: topics of partitions of records, appended and never changed.
 *
 * Promises that every adapter keeps (test/kit/event-log/features.ts holds them to it):
 * - records of one key are in one partition, `murmur2(key) mod partitions`, and are read in the order
 *   in which one `append` call gave them, and calls that follow one another;
 * - `append` resolves when every record of it is durable (flushed to disk, or acked by the quorum); a
 *   batch is ordered per key but is NOT atomic: after a crash any prefix per partition may be there;
 * - offsets grow within a partition, they are not contiguous, and no record holds one;
 * - a reader sees a prefix: never a later record of a partition without the earlier ones;
 * - delivery to a subscriber is at least once; repeats are dropped by readers, by id.
 */
import type { Topic } from '@instar/events/flow'

/** `schema` names the record version (`TurnCaptured.v1`); the payload is its Avro binary. Timestamp: ms. */
export type Append = {
  topic: Topic
  key: string
  schema: string
  payload: Uint8Array
  timestamp: number
}

/** `id`: the record's hash, computed on first use. `avro`: the writer's schema, for a version newer than this build. */
export type LogRecord = Append & { partition: number; offset: number; id?: string; avro?: string }

export type Position = { topic: Topic; partition: number; offset: number }

/** The next offset to read for each partition of a topic; a partition that is absent starts at 0. */
export type Offsets = Partial<Record<Topic, Readonly<Record<number, number>>>>

export type Subscription = {
  /** Commits for the group: `offset` is the next one to read. Durable when it resolves. */
  commit(positions: readonly Position[]): Promise<void>
  /** Resolves when all that was on the log when it is called has been handled. */
  caughtUp(): Promise<void>
  /** Resolves when the last running handler has returned; nothing is delivered afterwards. */
  stop(): Promise<void>
  /**
   * Rejects when a handler threw, or with `log_broken` when the log failed; the subscription has then stopped at that
   * record. Else pending until `stop`.
   */
  readonly done: Promise<void>
}

export type SubscribeOptions = {
  topics: readonly Topic[]
  /** The group whose commits `from: 'committed'` continues. */
  group: string
  from: 'start' | 'committed' | Offsets
  /**
   * Called with records of one partition at a time, in order; the next batch of that partition waits for
   * it. A slow handler slows the reading (nothing is buffered without bound), never a writer.
   */
  handle(records: readonly LogRecord[]): Promise<void> | void
  maxBatch?: number
}

export type ReadOptions = {
  /** Default: the start. */
  from?: Offsets | { time: number }
  /** Exclusive; default: the end as of the call. */
  to?: Offsets | { time: number }
  /** Restrict to the partition of this key, and to its records. */
  key?: string
  /** Restrict to this partition. */
  partition?: number
  maxBatch?: number
  /** Bytes per fetch; one batch of the writer's is always returned whole. Default: sized for a reader that reads on. */
  maxBytes?: number
}

/**
 * The partitions of a topic that this process works on. The assignment divides work and gives no exclusion: for a
 * short time two processes may own one partition.
 */
export type PartitionAssignment = {
  owns(partition: number): boolean
  /**
   * Gives up all partitions: `owns` returns false afterwards. Resolves when the group has removed this member, or
   * when the group cannot be reached.
   */
  leave(): Promise<void>
}

/** A log named by the settings, not opened yet. */
export type LogTarget = {
  /** True: any number of processes may write. False: one process writes, and others ask it over HTTP. */
  readonly manyWriters: boolean
  /** Topics and schemas are made before the first start, by `instar setup`. */
  readonly needsSetup: boolean
  /** Its address or folder. */
  readonly address: string
  /** False: nothing has been started there yet. True too where only opening it tells. */
  exists(): boolean
}

export interface EventLog {
  /**
   * No process of another build follows or writes this log while it is open: the newest record versions may be
   * written at once.
   */
  readonly sole?: boolean
  /**
   * Positions in the order of the records. Rejects with `log_full` (retryable) when the bounded queue in front has no
   * room: nothing of the batch was written. Rejects with `log_unavailable` when it is not known whether the records
   * were written; ids make a second try harmless. Rejects with `log_broken` (not retryable) when no try of this
   * process will succeed: the process has to end. Until it resolves, neither the list nor a payload may be changed;
   * then they are the caller's again.
   */
  append(records: readonly Append[]): Promise<Position[]>
  subscribe(options: SubscribeOptions): Promise<Subscription>
  read(topic: Topic, options?: ReadOptions): AsyncIterable<LogRecord[]>
  /**
   * Joins the group whose members divide the partitions of a topic. On a log with a single writer all partitions are
   * assigned at once; else none are until the group has agreed. `onChange` (which must not throw) is called after
   * each change. A process that gains a partition must look again at all unfinished work there. Reading and writing
   * are not restricted by the assignment.
   */
  joinGroup(group: string, topic: Topic, onChange: () => void): Promise<PartitionAssignment>
  /** One record by its position; undefined if there is none. */
  at(position: Position): Promise<LogRecord | undefined>
  /** The next offset of each partition; every record whose append resolved before this call is below it. */
  ends(topics: readonly Topic[]): Promise<Offsets>
  partitions(topic: Topic): number
  /**
   * Copies an unreadable record to its topic's dead letters; durable when it resolves. Absent on a log without dead
   * letters.
   */
  deadLetter?(position: Position, reason: string): Promise<void>
  close(): Promise<void>
}
