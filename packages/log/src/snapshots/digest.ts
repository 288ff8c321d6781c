/**
 * A digest of a stored state that does not depend on how it was written: of its rows by table and key, decoded. What depends
 * on how topics were interleaved, the order of queues among it, is not in it.
 */
import { ValueDigest } from '@instar/events'
import { zstdDecompressSync } from 'node:zlib'
import { inSlices } from './slices.ts'
import { fromBytes } from './value.ts'

/** A row of a table, or with null an entry of a queue. In the order of tables, and of the bytes of keys. */
export type StateRow = readonly [table: string, key: string, value: Uint8Array | null]

/** `digest`: SHA-256 in hex. */
export type StateDigest = { digest: string; rows: number }

/**
 * What depends on how topics were interleaved. `orders`: tables whose values are the places of keys in a queue; `tables`:
 * tables as a whole.
 */
export type Interleaved = { orders: ReadonlySet<string>; tables: ReadonlySet<string> }

export const stateDigest = async (
  rows: Iterable<StateRow>,
  interleaved: Interleaved,
  signal?: AbortSignal,
): Promise<StateDigest> => {
  const digest = new ValueDigest()
  let count = 0
  await inSlices(rows, (row) => {
    signal?.throwIfAborted()
    if (interleaved.tables.has(row[0])) return
    digest.add(canonicalRow(row, interleaved))
    count += 1
  })
  return { digest: digest.end(), rows: count }
}

/** Table and key of the first row that only one state has, or both with different values; null: the states are equal. */
export const firstDifferentRow = (
  ours: Iterable<StateRow>,
  theirs: Iterable<StateRow>,
  interleaved: Interleaved,
): { table: string; key: string } | null => {
  const [a, b] = [compared(ours, interleaved), compared(theirs, interleaved)]
  const digestOf = (row: StateRow): string => new ValueDigest().add(canonicalRow(row, interleaved)).end()
  try {
    for (;;) {
      const [our, their] = [a.next().value, b.next().value] as (StateRow | undefined)[]
      if (!our && !their) return null
      if (our && their && digestOf(our) === digestOf(their)) continue
      const first = !our || (their && before(their, our)) ? their! : our
      return { table: first[0], key: first[1] }
    }
  } finally {
    a.return(undefined)
    b.return(undefined)
  }
}

const compared = function* (rows: Iterable<StateRow>, { tables }: Interleaved): Generator<StateRow, undefined> {
  for (const row of rows) if (!tables.has(row[0])) yield row
}

const before = ([table, key]: StateRow, [otherTable, otherKey]: StateRow): boolean =>
  table === otherTable ? Buffer.compare(Buffer.from(key), Buffer.from(otherKey)) < 0 : table < otherTable

const canonicalRow = ([table, key, value]: StateRow, { orders }: Interleaved): unknown[] => [
  table,
  key,
  value === null || orders.has(table) ? null : canonical(decoded(value)),
]

const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

/** A value of a row, whether or not its table compresses: neither JSON nor v8.serialize begins as zstd does. */
const decoded = (value: Uint8Array): unknown =>
  fromBytes(ZSTD.equals(value.subarray(0, ZSTD.length)) ? zstdDecompressSync(value) : value)

/** Bytes, maps and sets as lists, which `ValueDigest` takes. */
const canonical = (value: unknown): unknown => {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(canonical)
  if (value instanceof Uint8Array) return ['\0bytes', Buffer.from(value).toString('hex')]
  if (value instanceof Map) return ['\0map', ...[...value].map(([key, one]) => [canonical(key), canonical(one)])]
  if (value instanceof Set) return ['\0set', ...[...value].map(canonical)]
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, canonical(one)]))
}
