/** Formats tables as text: columns of numbers are right-aligned, others left-aligned. */
import { escapeControls } from '@instar/process/printable'

export type Cell = string | number | boolean | null | undefined
type Column<R> = { name: string; of: (row: R) => Cell }

const cellText = (cell: Cell): string =>
  cell === null || cell === undefined
    ? '–'
    : typeof cell === 'number' && !Number.isInteger(cell)
      ? cell.toFixed(Math.abs(cell) < 0.1 ? 4 : 2)
      : escapeControls(String(cell))

/** A header, a rule and one line for each row, each ended by a line break. Null and undefined are printed as –. */
export const table = <R>(columns: readonly Column<R>[], rows: readonly R[]): string => {
  const cells = rows.map((row) => columns.map(({ of }) => of(row)))
  const texts = cells.map((row) => row.map(cellText))
  const isNumeric = columns.map((_, i) =>
    cells.every((row) => row[i] === null || row[i] === undefined || typeof row[i] === 'number'),
  )
  const widths = columns.map(({ name }, i) => Math.max(name.length, ...texts.map((row) => row[i]!.length)))
  const line = (row: readonly string[]): string =>
    row
      .map((cell, i) => (isNumeric[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd()
  return [
    line(columns.map(({ name }) => name)),
    widths.map((width) => '─'.repeat(width)).join('  '),
    ...texts.map(line),
    '',
  ].join('\n')
}

/** A table of query results, with the columns of the first row, and the number of rows. */
export const rowsTable = (rows: readonly Readonly<Record<string, unknown>>[]): string => {
  const names = Object.keys(rows[0] ?? {})
  const toCell = (value: unknown): Cell =>
    typeof value === 'object' && value !== null ? JSON.stringify(value) : (value as Cell)
  return `${
    names.length > 0
      ? table(
          names.map((name) => ({ name, of: (row: Readonly<Record<string, unknown>>) => toCell(row[name]) })),
          rows,
        )
      : ''
  }(${rows.length} ${rows.length === 1 ? 'row' : 'rows'})\n`
}

/** `2026-01-31 12:00`, UTC. `ms`: since the epoch. */
export const minuteText = (ms: number | null): string | null =>
  ms === null ? null : new Date(ms).toISOString().slice(0, 16).replace('T', ' ')
