/**
 * Which partition each offset of a topic is in: 2 bytes per offset, one row per `BLOCK` offsets, written when the
 * block is full; behind the last full block the topic's own rows say it. An SQL index on the partition would have
 * every transaction write a page for each partition that it touches: 70 % more pages for a group of 32 records.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { DatabaseSync, StatementSync } from 'node:sqlite'

const BLOCK = 1024

export const blockTable = (topic: Topic): string =>
  `CREATE TABLE IF NOT EXISTS "${topic}_blocks" (block INTEGER PRIMARY KEY, partitions BLOB NOT NULL) STRICT;`

const blockOf = (offset: number): number => Math.floor(offset / BLOCK)

/** In the writing connection. */
export class BlockWriter {
  readonly #insert: StatementSync
  readonly #partitions = new Uint16Array(BLOCK)

  /** `next`: the offset that `add` is called with first; each of the following is one more. */
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

/** The blocks of a topic that has records and no blocks yet. */
export const fillBlocks = (db: DatabaseSync, topic: Topic): void => {
  const blocks = new BlockWriter(db, topic, 0)
  for (const { offset, partition } of db
    .prepare(`SELECT offset, partition FROM "${topic}" ORDER BY offset`)
    .iterate() as Iterable<RecordLocation>)
    blocks.add(offset, partition)
}

type RecordLocation = { offset: number; partition: number }

/** Of an offset that holds nothing yet; no partition has this number. */
const NONE = 0xffff

/**
 * In a reading connection. Every offset is looked at once in the life of the connection, for the partitions' ends
 * (9 ms for a million records, when it first asks); what else is asked for is read again from the file.
 */
export class BlockReader {
  readonly #topic: Topic
  readonly #last: StatementSync
  readonly #full: StatementSync
  readonly #places: StatementSync
  readonly #ends: number[]
  /** Offsets below it are in `#ends`. */
  #seen = 0
  /** The last block that was looked into, as far as it was known then. */
  #held = { block: -1, until: 0, partitions: new Uint16Array() }

  constructor(db: DatabaseSync, topic: Topic, partitions: number) {
    this.#topic = topic
    this.#last = db.prepare(`SELECT max(offset) AS last FROM "${topic}"`)
    this.#full = db.prepare(`SELECT partitions FROM "${topic}_blocks" WHERE block = ?`)
    this.#places = db.prepare(`SELECT offset, partition FROM "${topic}" WHERE offset >= ? AND offset < ?`)
    this.#ends = new Array<number>(partitions).fill(0)
  }

  end(): number {
    const { last } = this.#last.get() as { last: number | null }
    return last === null ? 0 : last + 1
  }

  /** One above the last offset of each partition; 0 for one that holds nothing. */
  ends(): readonly number[] {
    const end = this.end()
    for (; blockOf(this.#seen) < blockOf(end); this.#seen = (blockOf(this.#seen) + 1) * BLOCK) {
      const first = blockOf(this.#seen) * BLOCK
      const partitions = this.#readFull(blockOf(this.#seen))
      for (let i = 0; i < BLOCK; i++) this.#ends[partitions[i]!] = first + i + 1
    }
    for (const { offset, partition } of this.#places.iterate(this.#seen, end) as Iterable<RecordLocation>)
      this.#ends[partition] = offset + 1
    this.#seen = end
    return this.#ends
  }

  /** The first offset at or after `offset` in a partition. */
  firstAt(partition: number, offset: number): number | undefined {
    return this.within(partition, offset, this.ends()[partition]!, 1)[0]
  }

  /** The partition's first `most` offsets from `from` up to, not with, `to`. */
  within(partition: number, from: number, to: number, most = Infinity): number[] {
    const end = Math.min(to, this.ends()[partition]!)
    const offsets: number[] = []
    for (let at = from; at < end && offsets.length < most; at++) {
      const i = this.#partitions(blockOf(at)).indexOf(partition, at % BLOCK)
      at = i === -1 ? (blockOf(at) + 1) * BLOCK - 1 : blockOf(at) * BLOCK + i
      if (i !== -1 && at < end) offsets.push(at)
    }
    return offsets
  }

  #partitions(block: number): Uint16Array {
    const until = Math.min(this.#seen, (block + 1) * BLOCK)
    if (this.#held.block !== block || this.#held.until !== until)
      this.#held = {
        block,
        until,
        partitions: until % BLOCK === 0 ? this.#readFull(block) : this.#readTail(block, until),
      }
    return this.#held.partitions
  }

  #readFull(block: number): Uint16Array<ArrayBuffer> {
    const row = this.#full.get(block) as { partitions: Uint8Array } | undefined
    if (row?.partitions.length !== 2 * BLOCK)
      throw new InstarError(
        'data_unreadable',
        `the log does not say where the records of block ${block} of ${this.#topic} are`,
        { topic: this.#topic, block },
      )
    return new Uint16Array(row.partitions.slice().buffer)
  }

  #readTail(block: number, until: number): Uint16Array<ArrayBuffer> {
    const partitions = new Uint16Array(BLOCK).fill(NONE)
    for (const { offset, partition } of this.#places.iterate(block * BLOCK, until) as Iterable<RecordLocation>)
      partitions[offset % BLOCK] = partition
    return partitions
  }
}
