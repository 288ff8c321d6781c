/**
 * A table. Rows that lead elsewhere have a link in their first cell. A long one shows its first rows until more are
 * asked for.
 */
import { useMemo, useState } from 'preact/hooks'
import { html, type Children, type View } from '../html.ts'

export type Column<Row> = {
  name: string
  of: (row: Row) => Children
  /** Right-aligned, with digits of equal width. */
  numeric?: boolean
  /** Explains the column. */
  title?: string
}

/** Rows that are shown at first, and that each further click adds. */
export const ROWS = 50

/** Drawn again only for another row, or another `state` of it. */
function Line<Row>({ row, columns, state }: { row: Row; columns: readonly Column<Row>[]; state: unknown }): View {
  return useMemo(
    () =>
      html`<tr>
        ${columns.map(({ of, numeric }) => html`<td class=${numeric ? 'numeric' : ''}>${of(row)}</td>`)}
      </tr>`,
    [row, state],
  )
}

export function Table<Row>({
  caption,
  columns,
  rows,
  empty = 'Nothing yet.',
  all = false,
  state,
}: {
  caption: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  empty?: string
  /** The caller reads the rows page by page: each is shown. */
  all?: boolean
  /** All that a row's cells show besides the row; without it each row is drawn with the table. */
  state?: (row: Row) => string
}): View {
  const [limit, setMost] = useState(ROWS)
  const most = all ? Infinity : limit
  if (rows.length === 0) return html`<p class="note quiet">${empty}</p>`
  const explained = columns.filter(({ title }) => title !== undefined)
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${caption}>
      <table>
        <caption class="hidden">
          ${caption}
        </caption>
        <thead>
          <tr>
            ${columns.map(
              ({ name, numeric, title }) => html`<th scope="col" class=${numeric ? 'numeric' : ''}
              title=${title}>${name}</th>`,
            )}
          </tr>
        </thead>
        <tbody>
          ${rows
            .slice(0, most)
            .map((row) => html`<${Line} row=${row} columns=${columns} state=${state ? state(row) : {}} />`)}
        </tbody>
      </table>
    </div>
    ${
      explained.length > 0
        ? html`<details>
            <summary>What the columns mean</summary>
            <dl class="terms">
              ${explained.map(({ name, title }) => html`<div><dt>${name}</dt><dd>${title}</dd></div>`)}
            </dl>
          </details>`
        : null
    }
    ${
      rows.length > most
        ? html`<p>
            <button onClick=${() => setMost((last) => last + ROWS)}>${Math.min(ROWS, rows.length - most)} more
              of ${rows.length}</button>
          </p>`
        : null
    }
  `
}
