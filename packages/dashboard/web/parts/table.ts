/** A table. Rows that lead elsewhere have a link in their first cell. */
import { html, type Children, type View } from '../html.ts'

export type Column<Row> = {
  name: string
  of: (row: Row) => Children
  /** Right-aligned, with digits of equal width. */
  numeric?: boolean
  /** Explains the column. */
  title?: string
}

export function Table<Row>({
  caption,
  columns,
  rows,
  empty = 'Nothing yet.',
}: {
  caption: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  empty?: string
}): View {
  if (rows.length === 0) return html`<p class="note quiet">${empty}</p>`
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${caption}>
      <table>
        <caption class="hidden">
          ${caption}
        </caption>
        <thead>
          <tr>
            ${columns.map(({ name, numeric, title }) => html`<th scope="col" class=${numeric ? 'numeric' : ''} title=${title}>${name}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            (row) =>
              html`<tr>
                ${columns.map(({ of, numeric }) => html`<td class=${numeric ? 'numeric' : ''}>${of(row)}</td>`)}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
  `
}
