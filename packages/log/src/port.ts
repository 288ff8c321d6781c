/**
 * The port of the event log: append-only topics, divided into partitions.
 *
 * Guarantees of every adapter (tested by test/kit/event-log/features.ts):
 * - all records of a key are in one partition, `murmur2(key) mod partitions`, in the order of their appends;
 * - `append` resolves when all its records are durable (flushed to disk, or acknowledged by the quorum). A batch is
 *   ordered per key and not atomic: after a crash the log may contain any prefix of it in each partition;
 * - offsets increase within a partition and may have gaps; records do not contain their offset;
 * - a reader sees a prefix of a partition: no record without all earlier ones;
 * - delivery to a subscriber is at least once; readers drop duplicates by id;
 * - records are deleted by `cut` alone, from the start of a partition. What begins before that is refused, never shortened.
 */
import type { Topic } from '@instar/events/flow'

/**
 * A record to append. `schema`: the record version (`TurnCaptured.v1`); `payload`: its Avro binary encoding;
 * `timestamp`: milliseconds since 1970.
 */
export type Append = {
  topic: Topic
  key: string
  schema: string
  payload: Uint8Array
  timestamp: number
}

/**
 * A stored record. `id`: its hash, computed on first use. `avro`: the writer's schema, set if the version is newer than
 * this build. `damaged`: it does not match the checksum that it was written with; readers skip it as they do a record
 * whose bytes do not match their schema. `unreadable`: see `ReadOptions`; it is `damaged`, too, and has no key, schema and bytes.
 */
export type LogRecord = Append & {
  partition: number
  offset: number
  id?: string
  avro?: string
  damaged?: true
  unreadable?: true
}

export type Position = { topic: Topic; partition: number; offset: number }

/** The next offset to read of each partition of a topic; 0 for partitions that are absent. */
export type Offsets = Partial<Record<Topic, Readonly<Record<number, number>>>>

export type Subscription = {
  /** Commits positions for the group; `offset` is the next one to read. Durable when it resolves. */
  commit(positions: readonly Position[]): Promise<void>
  /** Resolves when all records that were on the log at the call have been handled. */
  caughtUp(): Promise<void>
  /**
   * From here on delivers a partition of the topic `byPartition`, beside the others. `from`: the next offset to read, called
   * while no handler runs. Resolves when its records that were on the log at the call, and those of the other topics, have
   * been handled, or it was released.
   */
  take(partition: number, from: () => number): Promise<void>
  /** Delivers the partition no longer. A handler that runs may still be given records of it. */
  release(partition: number): void
  /** Resolves when the running handler has returned. No record is delivered afterwards. */
  stop(): Promise<void>
  /**
   * Rejects with an error of the handler, or with `log_broken` if the log failed; the subscription has then stopped at
   * that record. Resolves after `stop`.
   */
  readonly done: Promise<void>
}

export type SubscribeOptions = {
  topics: readonly Topic[]
  /** The group whose commits `from: 'committed'` continues. */
  group: string
  from: 'start' | 'committed' | Offsets
  /**
   * Called with records of one partition, in order, one call at a time. A slow handler slows reading, and never
   * writers; buffers are bounded.
   */
  handle(records: readonly LogRecord[]): Promise<void> | void
  maxBatch?: number
  /** Of this topic, one of `topics`, only the partitions that `take` names are delivered, from the offsets that it says. */
  byPartition?: Topic
  /**
   * Records of these topics may be delivered up to `ms` late and several at once, which costs less CPU a record where they
   * are fetched. `caughtUp` ends the wait: at once where all topics of the subscription may be late, else within half a
   * second. A log that hands its own records out ignores it.
   */
  gather?: { topics: readonly Topic[]; ms: number }
}

export type ReadOptions = {
  /** Default: the start. */
  from?: Offsets | { time: number }
  /** Exclusive. Default: the end as of the call. */
  to?: Offsets | { time: number }
  /** Only records of this key. */
  key?: string
  /** Only records of this partition. */
  partition?: number
  maxBatch?: number
  /** Maximum bytes per fetch; a batch of the writer is returned whole. Default: sized for sequential reads. */
  maxBytes?: number
  /** Also what the log has in place of a record and no build can decode, which readers else do not see: on Kafka alone. */
  unreadable?: true
}

/**
 * The partitions of a topic that are assigned to this process. The assignment divides work without mutual exclusion:
 * two processes may own a partition for a short time.
 */
export type PartitionAssignment = {
  owns(partition: number): boolean
  /**
   * Leaves the group: `owns` returns false from now on. Resolves when the group has removed this member, or is
   * unreachable.
   */
  leave(): Promise<void>
}

export type KnownOffsets = () => Readonly<Record<number, number>>

/** A log of the settings that is not opened yet. */
export type LogTarget = {
  /** True: any number of processes may write. False: one process writes, others send it requests over HTTP. */
  readonly manyWriters: boolean
  /** `instar setup` must create topics and schemas before the first start. */
  readonly needsSetup: boolean
  /** The URL or folder. */
  readonly address: string
  /** False if there is no log yet; true if there is one or only opening can tell. */
  exists(): boolean
}

/**
 * Of records that were cut from a log. `read`, `failed`: objects of the archive that were read, or could not be; `keptBytes`: of
 * those in memory; `refused`: reads that ended with `log_cut`, without an archive.
 */
export type ArchiveUse = { read: number; failed: number; keptBytes: number; refused: number }

/** A log, or an archive of one, from which records are copied. */
export type CopySource = Pick<EventLog, 'read' | 'ends' | 'partitions' | 'sequential'>

export interface EventLog {
  /**
   * True if no process of another build can read or write the log while it is open, so that the newest record versions
   * may be written at once.
   */
  readonly sole?: boolean
  /**
   * True if a topic is one sequence: offsets count its records from 0 in the order of their appends, whatever the
   * partition. Otherwise an offset is that of a partition.
   */
  readonly sequential?: boolean
  /**
   * Resolves with the positions in the order of the records. Rejects with
   * - `log_full` (retryable): the queue has no room, and no record of the batch was written;
   * - `log_unavailable` (retryable): it is unknown which records were written; a retry is safe, since duplicates are
   *   dropped by id;
   * - `log_broken`: this process cannot write any more and has to exit.
   * The caller must not change the list or the payloads until the promise is settled.
   */
  append(records: readonly Append[]): Promise<Position[]>
  /**
   * Writes durably what no reader sees, and rejects as `append` does. Absent where nothing can be written without a record.
   */
  probe?(): Promise<void>
  subscribe(options: SubscribeOptions): Promise<Subscription>
  read(topic: Topic, options?: ReadOptions): AsyncIterable<LogRecord[]>
  /**
   * Joins the group whose members divide the partitions of a topic. On a log with a single writer all partitions are
   * assigned at once; else none are until the group has agreed. `onChange` (which must not throw) is called after
   * each change. A process that gains a partition must look again at all unfinished work there. Reading and writing
   * are not restricted by the assignment. `known`: of each partition the next offset that this process has to read, at the
   * time of the call; a partition that has to move goes where least of it is unread.
   */
  joinGroup(group: string, topic: Topic, onChange: () => void, known?: KnownOffsets): Promise<PartitionAssignment>
  /** One record by its position; undefined if there is none. */
  at(position: Position): Promise<LogRecord | undefined>
  /**
   * Commits positions for a group; `offset` is the next one to read. Absent on a log whose readers are one process. Rejects
   * with `log_unavailable`.
   */
  commit?(group: string, positions: readonly Position[]): Promise<void>
  /** The positions that were committed for the group; null: none were. Absent where `commit` is. */
  committed?(group: string, topics: readonly Topic[]): Promise<Offsets | null>
  /** The next offset of each partition; every record whose append resolved before this call is below it. */
  ends(topics: readonly Topic[]): Promise<Offsets>
  /**
   * Of each partition the first offset that the log holds, with all after it: 0 but after a `cut`, and then that of a record.
   * Below it `read`, `subscribe` and `take` reject (`cutAway` of cuts.ts), and so does `at` where the record is gone. A position
   * of a snapshot, checkpoint or archive that is at or above the offset has its last record on the log. Absent: 0 everywhere.
   */
  starts?(topics: readonly Topic[]): Promise<Offsets>
  /**
   * Deletes durably records of `turns` and `scores` below these offsets; the last one of each partition stays, and more may: where
   * topics are one sequence all partitions are cut at one offset, on the embedded log a multiple of 1,024. A second call
   * completes one that was interrupted. Rejects with `internal` unless `LogCut` records on the log allow all of the offsets,
   * and as `append` does. Absent on a log from which nothing can be cut.
   */
  cut?(starts: Offsets): Promise<void>
  partitions(topic: Topic): number
  /**
   * Copies an unreadable record to its topic's dead letters; durable when it resolves. Absent on a log without dead
   * letters.
   */
  deadLetter?(position: Position, reason: string): Promise<void>
  /** What was read of records that were cut. Absent on a log by itself (archive/archived-log.ts). */
  archiveUse?(): ArchiveUse
  /** Number of dead letters whose positions are in memory, by topic. Absent on a log without dead letters. */
  deadLettersKnown?(): ReadonlyMap<Topic, number>
  close(): Promise<void>
}
