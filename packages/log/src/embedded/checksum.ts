/**
 * The checksum of a row of `log.db`. SQLite has none of its own: without it a bit that flips on the disk changes what a
 * record says, and no reader notices.
 */
import type { Topic } from '@instar/events/flow'
import type { DatabaseSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'

/** The columns that a checksum covers, in the order of the table. `schema`: the id in the file. */
export type Row = [
  offset: number,
  partition: number,
  timestamp: number,
  schema: number,
  key: string,
  payload: Uint8Array,
]

/** CRC-32 of the columns and the topic. The offset is one of them, so that exchanged rows are found too. */
export const checksumOf = (topic: Topic, [offset, partition, timestamp, schema, key, payload]: Row): number =>
  crc32(payload, crc32(`${topic} ${offset} ${partition} ${timestamp} ${schema} ${key}\n`))

/** Whether the topic's table has the column; tables of earlier builds do not. */
export const hasChecksums = (db: DatabaseSync, topic: Topic): boolean =>
  db.prepare('SELECT 1 FROM pragma_table_info(?) WHERE name = ?').get(topic, 'checksum') !== undefined

/**
 * Adds the column to a table of an earlier build. Its rows have no checksum, nor have those that such a build writes
 * later: both are read unchecked.
 */
export const addChecksums = (db: DatabaseSync, topic: Topic): void => {
  if (!hasChecksums(db, topic)) db.exec(`ALTER TABLE "${topic}" ADD COLUMN checksum INTEGER`)
}

/**
 * The time that a row's partition had reached, from its columns `reached` and `timestamp`. No checksum covers `reached`, which
 * may be of any value and type: one below the row's own time would hide the rows before it from a search by time, and one that
 * is no integer would be refused in every later row. One that is too late only lets a search begin earlier.
 */
export const reachedOf = (columns: readonly unknown[]): number =>
  Math.max(0, ...columns.filter((value): value is number => Number.isSafeInteger(value)))
