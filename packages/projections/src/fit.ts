/**
 * Whether PostgreSQL accepts the rows of a record. A program other than Instar may write any number and any text into a
 * record; a row that PostgreSQL rejects would be rejected at every attempt, and no later record would be projected.
 */
import { getTableConfig } from './drizzle.ts'
import type { ProjectedRows } from './rows.ts'
import { TABLES, type TableName } from './schema.ts'

/** Maximum bytes of the texts of an index entry: PostgreSQL's limit is 2,704 with numbers and headers. */
const MAX_INDEXED_BYTES = 2600
const MAX_INTEGER = 2 ** 31 - 1

type Row = Readonly<Record<string, unknown>>
type Check = (row: Row) => boolean

const NUMBERS: Readonly<Record<string, (value: number) => boolean>> = {
  PgInteger: (value) => Number.isInteger(value) && value >= -MAX_INTEGER - 1 && value <= MAX_INTEGER,
  PgBigInt53: Number.isSafeInteger,
  // In JSON a number that is not finite is null.
  PgDoublePrecision: Number.isFinite,
}

const indexed = (columns: readonly string[]): Check => {
  return (row) => {
    let bytes = 0
    for (const column of columns) {
      const value = row[column]
      if (typeof value === 'string') bytes += Buffer.byteLength(value)
    }
    return bytes <= MAX_INDEXED_BYTES
  }
}

const checksOf = (name: TableName): Check[] => {
  const { columns, indexes, primaryKeys } = getTableConfig(TABLES[name])
  const numbers = columns.flatMap(({ name: column, columnType, notNull }): Check[] => {
    const valid = NUMBERS[columnType]
    if (!valid || (columnType === 'PgDoublePrecision' && !notNull)) return []
    return [({ [column]: value }) => (value === null || value === undefined ? !notNull : valid(value as number))]
  })
  const indexedColumns = [
    ...columns.filter(({ primary }) => primary).map((column) => [column.name]),
    ...primaryKeys.map((key) => key.columns.map((column) => column.name)),
    ...indexes.map(({ config }) => config.columns.flatMap((column) => ('name' in column ? [column.name ?? ''] : []))),
  ]
  return [...numbers, ...indexedColumns.map(indexed)]
}

const NAMES = Object.keys(TABLES) as TableName[]
const CHECKS = NAMES.map((name) => [name, checksOf(name)] as const)

/** The lengths of the tables and of the changes of `turns`, for `keepIfFit`. */
export const lengthsOf = (rows: ProjectedRows): number[] => [
  ...NAMES.map((name) => rows[name].length),
  rows.next_states.length,
]

/** Removes the rows that were added since `lengths` unless PostgreSQL accepts all of them; returns whether it does. */
export const keepIfFit = (rows: ProjectedRows, lengths: readonly number[]): boolean => {
  const fit = CHECKS.every(([name, checks], i) => {
    for (let at = lengths[i]!; at < rows[name].length; at++)
      if (!checks.every((check) => check(rows[name][at] as Row))) return false
    return true
  })
  if (!fit) {
    for (const [i, name] of NAMES.entries()) rows[name].length = lengths[i]!
    rows.next_states.length = lengths.at(-1)!
  }
  return fit
}
