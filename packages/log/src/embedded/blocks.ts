/**
 * The partition index of the embedded log: a u16 (platform byte order) per offset, stored in one row per block of
 * `BLOCK` offsets when the block is full. Offsets after the last full block are looked up in the topic's rows. With an
 * SQL index on the partition, each transaction would write one page per partition: 70 % more pages for a transaction of
 * 32 records.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { DatabaseSync, StatementSync } from 'node:sqlite'

/** Offsets per block. */
const BLOCK = 1024

export const blockTable = (topic: Topic): string =>
  `CREATE TABLE IF NOT EXISTS "${topic}_blocks" (block INTEGER PRIMARY KEY, partitions BLOB NOT NULL) STRICT;`

const blockOf = (offset: number): number => Math.floor(offset / BLOCK)

/** Writes the blocks of a topic, in the writing connection. */
export class BlockWriter {
  readonly #insert: StatementSync
  readonly #partitions = new Uint16Array(BLOCK)

  /** `next`: the first offset passed to `add`; each call must pass the offset after that of the previous one. */
  constructor(db: DatabaseSync, topic: Topic, next: number) {
    this.#insert = db.prepare(`INSERT INTO "${topic}_blocks" VALUES (?, ?)`)
    const rows = db
      .prepare(`SELECT offset, partition FROM "${topic}" WHERE offset >= ? AND offset < ?`)
      .all(blockOf(next) * BLOCK, next)
    for (const { offset, partition } of rows as RecordLocation[]) this.#partitions[offset % BLOCK] = partition
  }

  add(offset: number, partition: number): void {
    this.#partitions[offset % BLOCK] = partition
    if (offset % BLOCK === BLOCK - 1) this.#insert.run(blockOf(offset), new Uint8Array(this.#partitions.buffer))
  }
}

/** Writes the blocks of a topic with records and without blocks. */
export const fillBlocks = (db: DatabaseSync, topic: Topic): void => {
  const blocks = new BlockWriter(db, topic, 0)
  for (const { offset, partition } of db
    .prepare(`SELECT offset, partition FROM "${topic}" ORDER BY offset`)
    .iterate() as Iterable<RecordLocation>)
    blocks.add(offset, partition)
}

type RecordLocation = { offset: number; partition: number }

/** The error for a gap: records are never deleted, so every offset of a topic has a record. */
export const recordsMissing = (topic: Topic, first: number, next: number): InstarError =>
  new InstarError(
    'log_truncated',
    `${topic} lacks the records of the offsets ${first} to ${next - 1}; restore the log from a copy`,
    { topic, first, next },
  )

/** Marks an offset without a record; partition counts are at most 0xffff, so no partition has this number. */
const NONE = 0xffff

/**
 * Reads the blocks of a topic. `ends` reads each offset once in the life of the connection (9 ms for a million records
 * at the first call); other queries read blocks from the file.
 */
export class BlockReader {
  readonly #topic: Topic
  readonly #last: StatementSync
  readonly #full: StatementSync
  readonly #rowsBetween: StatementSync
  readonly #ends: number[]
  /** Offsets below it are counted in `#ends`. */
  #scanned = 0
  /** The last block that was read. `until`: the offset up to which its partitions are valid. */
  #cachedBlock = { block: -1, until: 0, partitions: new Uint16Array() }

  constructor(db: DatabaseSync, topic: Topic, partitions: number) {
    this.#topic = topic
    this.#last = db.prepare(`SELECT max(offset) AS last FROM "${topic}"`)
    this.#full = db.prepare(`SELECT partitions FROM "${topic}_blocks" WHERE block = ?`)
    this.#rowsBetween = db.prepare(`SELECT offset, partition FROM "${topic}" WHERE offset >= ? AND offset < ?`)
    this.#ends = new Array<number>(partitions).fill(0)
  }

  end(): number {
    const { last } = this.#last.get() as { last: number | null }
    return last === null ? 0 : last + 1
  }

  /**
   * One above the last offset of each partition; 0 for an empty one. Throws `data_unreadable`, and `log_truncated` for
   * a gap after the last full block.
   */
  ends(): readonly number[] {
    const end = this.end()
    for (; blockOf(this.#scanned) < blockOf(end); this.#scanned = (blockOf(this.#scanned) + 1) * BLOCK) {
      const first = blockOf(this.#scanned) * BLOCK
      const partitions = this.#readFull(blockOf(this.#scanned))
      for (let i = 0; i < BLOCK; i++) this.#ends[partitions[i]!] = first + i + 1
    }
    let next = this.#scanned
    for (const { offset, partition } of this.#rowsBetween.iterate(next, end) as Iterable<RecordLocation>) {
      if (offset !== next) throw recordsMissing(this.#topic, next, offset)
      this.#ends[partition] = next = offset + 1
    }
    this.#scanned = end
    return this.#ends
  }

  /** The first offset of a partition that is at least `offset`. */
  firstAt(partition: number, offset: number): number | undefined {
    return this.within(partition, offset, this.ends()[partition]!, 1)[0]
  }

  /** The first `limit` offsets of a partition from `from` (inclusive) to `to` (exclusive). */
  within(partition: number, from: number, to: number, limit = Infinity): number[] {
    const end = Math.min(to, this.ends()[partition]!)
    const offsets: number[] = []
    for (let at = from; at < end && offsets.length < limit; at++) {
      const i = this.#partitions(blockOf(at)).indexOf(partition, at % BLOCK)
      at = i === -1 ? (blockOf(at) + 1) * BLOCK - 1 : blockOf(at) * BLOCK + i
      if (i !== -1 && at < end) offsets.push(at)
    }
    return offsets
  }

  #partitions(block: number): Uint16Array {
    const until = Math.min(this.#scanned, (block + 1) * BLOCK)
    if (this.#cachedBlock.block !== block || this.#cachedBlock.until !== until)
      this.#cachedBlock = {
        block,
        until,
        partitions: until % BLOCK === 0 ? this.#readFull(block) : this.#readTail(block, until),
      }
    return this.#cachedBlock.partitions
  }

  #readFull(block: number): Uint16Array<ArrayBuffer> {
    const row = this.#full.get(block) as { partitions: Uint8Array } | undefined
    if (row?.partitions.length !== 2 * BLOCK)
      throw new InstarError(
        'data_unreadable',
        `the partition index of the log lacks block ${block} of ${this.#topic}: restore the log from a copy`,
        { topic: this.#topic, block },
      )
    return new Uint16Array(row.partitions.slice().buffer)
  }

  #readTail(block: number, until: number): Uint16Array<ArrayBuffer> {
    const partitions = new Uint16Array(BLOCK).fill(NONE)
    for (const { offset, partition } of this.#rowsBetween.iterate(block * BLOCK, until) as Iterable<RecordLocation>)
      partitions[offset % BLOCK] = partition
    return partitions
  }
}
