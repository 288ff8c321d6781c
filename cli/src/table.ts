/** Tables for people: numbers to the right, text to the left, as wide as they must be. */
export type Cell = string | number | boolean | null | undefined
type Column<R> = { name: string; of: (row: R) => Cell }

/** What people wrote may hold line breaks and a terminal's commands. */
const inOneLine = (said: string): string =>
  said.replace(/\p{Cc}/gu, (control) =>
    control === '\n' ? '\\n' : control === '\t' ? '\\t' : `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )

const text = (cell: Cell): string =>
  cell === null || cell === undefined
    ? '–'
    : typeof cell === 'number' && !Number.isInteger(cell)
      ? cell.toFixed(Math.abs(cell) < 0.1 ? 4 : 2)
      : inOneLine(String(cell))

export const table = <R>(columns: readonly Column<R>[], rows: readonly R[]): string => {
  const cells = rows.map((row) => columns.map(({ of }) => of(row)))
  const shown = cells.map((row) => row.map(text))
  const right = columns.map((_, i) =>
    cells.every((row) => row[i] === null || row[i] === undefined || typeof row[i] === 'number'),
  )
  const widths = columns.map(({ name }, i) => Math.max(name.length, ...shown.map((row) => row[i]!.length)))
  const line = (row: readonly string[]): string =>
    row
      .map((cell, i) => (right[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd()
  return [
    line(columns.map(({ name }) => name)),
    widths.map((width) => '─'.repeat(width)).join('  '),
    ...shown.map(line),
    '',
  ].join('\n')
}

/** Rows of unknown columns, as SQL gives them. */
export const rowsTable = (rows: readonly Readonly<Record<string, unknown>>[]): string => {
  const names = Object.keys(rows[0] ?? {})
  const cell = (value: unknown): Cell =>
    typeof value === 'object' && value !== null ? JSON.stringify(value) : (value as Cell)
  return `${
    names.length > 0
      ? table(
          names.map((name) => ({ name, of: (row: Readonly<Record<string, unknown>>) => cell(row[name]) })),
          rows,
        )
      : ''
  }(${rows.length} ${rows.length === 1 ? 'row' : 'rows'})\n`
}

export const minute = (ms: number | null): string | null =>
  ms === null ? null : `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')}`
