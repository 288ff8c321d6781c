/** Rows of names on the disk: keys without values, of generation, hash of the name, time, session and a checksum. */
import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** Rows without values, sorted by their bytes. All but `close` reject where the store fails. */
export type NameRows = {
  /** Adds the rows and the mark in one step; resolves when both survive a power failure. */
  put(rows: readonly Uint8Array[], mark: string): Promise<void>
  /** At most `most` rows that begin with this, the last first. */
  lastUnder(prefix: Uint8Array, most: number): Promise<Uint8Array[]>
  /** Removes the rows from `from` on and before `to`. */
  remove(from: Uint8Array, to: Uint8Array): Promise<void>
  /** Removes everything, without a read, so that it works on damaged rows. */
  empty(): Promise<void>
  /** What `put` wrote last; null: nothing. */
  mark(): Promise<string | null>
  close(): Promise<void>
}

const GENERATION_BYTES = 4
const HASH_BYTES = 8
const TIME_BYTES = 6
const SESSION_AT = GENERATION_BYTES + HASH_BYTES + TIME_BYTES
const CHECKSUM_BYTES = 4
/** Bytes of a row beside its own, rounded up from what LevelDB's tables, index and filter take. */
const ROW_OVERHEAD = 16
/** Names of sessions that requests do not label: 32 hex digits, which are stored as 16 bytes. */
const HEX = /^[0-9a-f]{32}$/
const [IS_TEXT, IS_HEX] = [0, 1]

export const sizeOfRow = (session: string): number =>
  SESSION_AT + 1 + (HEX.test(session) ? 16 : Buffer.byteLength(session)) + CHECKSUM_BYTES + ROW_OVERHEAD

/** All rows of a generation begin with it. */
export const generationPrefix = (generation: number): Buffer => {
  const prefix = Buffer.alloc(GENERATION_BYTES)
  prefix.writeUInt32BE(generation)
  return prefix
}

/** All rows of a name in a generation begin with it, those of a later time after those of an earlier one. */
export const namePrefix = (generation: number, name: string): Buffer => {
  const prefix = Buffer.allocUnsafe(GENERATION_BYTES + HASH_BYTES)
  prefix.writeUInt32BE(generation)
  prefix.write(hash('sha256', name).slice(0, 2 * HASH_BYTES), GENERATION_BYTES, 'hex')
  return prefix
}

/** The same for all rows and prefixes of a name. */
export const nameOfRow = (row: Uint8Array): string =>
  Buffer.from(row.buffer, row.byteOffset, row.byteLength).toString(
    'hex',
    GENERATION_BYTES,
    GENERATION_BYTES + HASH_BYTES,
  )

/** The key of a row, which ends in the CRC-32 of the rest. `at`: ms since the epoch. */
export const rowOf = (prefix: Uint8Array, at: number, session: string): Buffer => {
  const isHex = HEX.test(session)
  const row = Buffer.allocUnsafe(SESSION_AT + 1 + (isHex ? 16 : Buffer.byteLength(session)) + CHECKSUM_BYTES)
  row.set(prefix)
  row.writeUIntBE(Math.max(0, Math.min(2 ** 48 - 1, at)), GENERATION_BYTES + HASH_BYTES, TIME_BYTES)
  row[SESSION_AT] = isHex ? IS_HEX : IS_TEXT
  row.write(session, SESSION_AT + 1, isHex ? 'hex' : 'utf8')
  const end = row.length - CHECKSUM_BYTES
  row.writeUInt32BE(crc32(row.subarray(0, end)), end)
  return row
}

/** Null for a row that does not match its checksum. */
export const readRow = (bytes: Uint8Array): { at: number; session: string } | null => {
  const row = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const end = row.length - CHECKSUM_BYTES
  if (end <= SESSION_AT || row.readUInt32BE(end) !== crc32(row.subarray(0, end))) return null
  return {
    at: row.readUIntBE(GENERATION_BYTES + HASH_BYTES, TIME_BYTES),
    session: row.subarray(SESSION_AT + 1, end).toString(row[SESSION_AT] === IS_HEX ? 'hex' : 'utf8'),
  }
}
