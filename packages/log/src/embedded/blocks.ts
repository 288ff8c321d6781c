/**
 * The partition index of the embedded log: a u16 (platform byte order) per offset, stored in one row per block of
 * `BLOCK` offsets when the block is full. Offsets after the last full block are looked up in the topic's rows. With an
 * SQL index on the partition, each transaction would write one page per partition: 70 % more pages for a transaction of
 * 32 records. The CRC-32 of a block is in the table `meta`, where earlier builds, which write none, do not look for it.
 */
import { InstarError } from '@instar/events/errors'
import type { Topic } from '@instar/events/flow'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'
import { partitionOf } from '../partition.ts'
import { metaWriter } from './meta.ts'

/** Offsets per block. */
export const BLOCK = 1024

/**
 * What was cut from a topic (cut.ts). `until`: all records from there on are held; a multiple of `BLOCK`. `last`: of each partition the
 * last offset below it, whose row is held, too; -1: there is none.
 */
export type TopicCut = { until: number; last: readonly number[] }

export const blockTable = (topic: Topic): string =>
  `CREATE TABLE IF NOT EXISTS "${topic}_blocks" (block INTEGER PRIMARY KEY, partitions BLOB NOT NULL) STRICT;`

const blockOf = (offset: number): number => Math.floor(offset / BLOCK)

const checksumName = (topic: Topic, block: number): string => `block ${topic} ${block}`

/** The topic and the number are covered too, so that exchanged blocks are found. */
const checksumOf = (topic: Topic, block: number, partitions: Uint8Array): string =>
  String(crc32(partitions, crc32(`${topic} ${block} `)))

type RecordLocation = { offset: number; partition: number }

/** Whether a stored value is one of the topic's partitions. A bit that flipped on the disk may have made it any value. */
export const isPartition = (value: unknown, count: number): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < count

/**
 * Returns the partition under which a row is indexed: its own, or that of its key if its own is none of the topic's. The
 * checksum of such a row does not match, so its record is delivered as damaged.
 */
export const rowPartition = (db: DatabaseSync, topic: Topic, count: number): ((row: RecordLocation) => number) => {
  const keyAt = db.prepare(`SELECT key FROM "${topic}" WHERE offset = ?`)
  return ({ offset, partition }) =>
    isPartition(partition, count)
      ? partition
      : partitionOf(String((keyAt.get(offset) as { key: unknown } | undefined)?.key), count)
}

/** Writes the blocks of a topic, in the writing connection. */
export class BlockWriter {
  readonly #topic: Topic
  readonly #insert: StatementSync
  readonly #writeMeta: ReturnType<typeof metaWriter>
  readonly #partitions = new Uint16Array(BLOCK)

  /** `next`: the first offset passed to `add`; each call must pass the offset after that of the previous one. */
  constructor(db: DatabaseSync, topic: Topic, count: number, next: number) {
    const partitionOfRow = rowPartition(db, topic, count)
    this.#topic = topic
    this.#insert = db.prepare(`INSERT INTO "${topic}_blocks" VALUES (?, ?)`)
    this.#writeMeta = metaWriter(db)
    const rows = db
      .prepare(`SELECT offset, partition FROM "${topic}" WHERE offset >= ? AND offset < ?`)
      .all(blockOf(next) * BLOCK, next)
    for (const row of rows as RecordLocation[]) this.#partitions[row.offset % BLOCK] = partitionOfRow(row)
  }

  add(offset: number, partition: number): void {
    this.#partitions[offset % BLOCK] = partition
    if (offset % BLOCK !== BLOCK - 1) return
    const block = blockOf(offset)
    const partitions = new Uint8Array(this.#partitions.buffer)
    this.#insert.run(block, partitions)
    this.#writeMeta(checksumName(this.#topic, block), checksumOf(this.#topic, block, partitions))
  }
}

/** Writes the blocks of a topic with records and without blocks. */
export const fillBlocks = (db: DatabaseSync, topic: Topic, count: number): void => {
  const blocks = new BlockWriter(db, topic, count, 0)
  const partitionOfRow = rowPartition(db, topic, count)
  for (const row of db
    .prepare(`SELECT offset, partition FROM "${topic}" ORDER BY offset`)
    .iterate() as Iterable<RecordLocation>)
    blocks.add(row.offset, partitionOfRow(row))
}

/** Deletes blocks of which no row is left but the last of a partition. `to`: exclusive. */
export const deleteBlocks = (db: DatabaseSync, topic: Topic, from: number, to: number): void => {
  db.prepare(`DELETE FROM "${topic}_blocks" WHERE block < ?`).run(to)
  const deleteChecksum = db.prepare('DELETE FROM meta WHERE name = ?')
  for (let block = from; block < to; block += 1) deleteChecksum.run(checksumName(topic, block))
}

/** The error for a gap: records are deleted by a cut alone, from the start, so every later offset of a topic has a record. */
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
  readonly #checksum: StatementSync
  readonly #rowsBetween: StatementSync
  readonly #ends: number[]
  readonly #partitionOfRow: (row: RecordLocation) => number
  /** Offsets below it are counted in `#ends`. */
  #scanned = 0
  #cut: TopicCut
  /** The last block that was read. `until`: the offset up to which its partitions are valid. */
  #cachedBlock = { block: -1, until: 0, partitions: new Uint16Array() }

  constructor(db: DatabaseSync, topic: Topic, partitions: number, cut: TopicCut) {
    this.#topic = topic
    this.#cut = cut
    this.#last = db.prepare(`SELECT max(offset) AS last FROM "${topic}"`)
    this.#full = db.prepare(`SELECT partitions FROM "${topic}_blocks" WHERE block = ?`)
    this.#checksum = db.prepare('SELECT value FROM meta WHERE name = ?')
    this.#rowsBetween = db.prepare(`SELECT offset, partition FROM "${topic}" WHERE offset >= ? AND offset < ?`)
    this.#ends = cut.last.map((offset) => offset + 1)
    this.#scanned = cut.until
    this.#partitionOfRow = rowPartition(db, topic, partitions)
  }

  /** The rows and blocks before the cut are not read any more, but for the last row of each partition. */
  setCut(cut: TopicCut): void {
    this.#cut = cut
    if (this.#scanned >= cut.until) return
    this.#ends.splice(0, cut.last.length, ...cut.last.map((offset) => offset + 1))
    this.#scanned = cut.until
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
    for (const row of this.#rowsBetween.iterate(next, end) as Iterable<RecordLocation>) {
      if (row.offset !== next) throw recordsMissing(this.#topic, next, row.offset)
      this.#ends[this.#partitionOfRow(row)] = next = row.offset + 1
    }
    // A row whose offset changed on the disk to one behind the last row's ends the scan in front of rows that are there.
    if (next < end) throw recordsMissing(this.#topic, next, end)
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
    const { until, last } = this.#cut
    const offsets = [last[partition]!].filter((kept) => kept >= from && kept < end && limit > 0)
    for (let at = Math.max(from, until); at < end && offsets.length < limit; at++) {
      const i = this.#partitions(blockOf(at)).indexOf(partition, at % BLOCK)
      at = i === -1 ? (blockOf(at) + 1) * BLOCK - 1 : blockOf(at) * BLOCK + i
      if (i !== -1 && at < end) offsets.push(at)
    }
    return offsets
  }

  /** The partition of an offset below `end`. Throws as `ends` does. */
  partitionAt(offset: number): number {
    this.ends()
    if (offset < this.#cut.until) return this.#cut.last.indexOf(offset)
    return this.#partitions(blockOf(offset))[offset % BLOCK]!
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

  /**
   * A block that has changed on the disk, by its type, its checksum or a number that is no partition, is built anew from the rows.
   */
  #readFull(block: number): Uint16Array<ArrayBuffer> {
    const row = this.#full.get(block) as { partitions: unknown } | undefined
    if (row === undefined)
      throw new InstarError(
        'data_unreadable',
        `the partition index of the log lacks block ${block} of ${this.#topic}: restore the log from a copy`,
        { topic: this.#topic, block },
      )
    const { partitions } = row
    if (partitions instanceof Uint8Array && partitions.length === 2 * BLOCK) {
      const stored = new Uint16Array(partitions.slice().buffer)
      const checksum = (this.#checksum.get(checksumName(this.#topic, block)) as { value: string } | undefined)?.value
      const isWhole = checksum === undefined || checksum === checksumOf(this.#topic, block, partitions)
      if (isWhole && stored.every((partition) => partition < this.#ends.length)) return stored
    }
    const built = this.#readTail(block, (block + 1) * BLOCK)
    const missing = built.indexOf(NONE)
    if (missing !== -1) throw recordsMissing(this.#topic, block * BLOCK + missing, block * BLOCK + missing + 1)
    return built
  }

  #readTail(block: number, until: number): Uint16Array<ArrayBuffer> {
    const partitions = new Uint16Array(BLOCK).fill(NONE)
    for (const row of this.#rowsBetween.iterate(block * BLOCK, until) as Iterable<RecordLocation>)
      partitions[row.offset % BLOCK] = this.#partitionOfRow(row)
    return partitions
  }
}
