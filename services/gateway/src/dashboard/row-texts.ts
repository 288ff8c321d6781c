/** What people or judges wrote in rows of the read model, which only a caller with the right to texts gets. */
import type { QueryRow } from '@instar/projections/read-model'
import type { Reading } from './visitor.ts'

/** Hints quote what people said, and so may the notes of verdicts. */
const TEXTS = ['hint', 'trained_hint'] as const

const hidden = (row: QueryRow): QueryRow => {
  const verdicts: unknown = row['verdicts']
  return {
    ...row,
    ...Object.fromEntries(TEXTS.filter((name) => name in row).map((name) => [name, null])),
    ...(Array.isArray(verdicts)
      ? { verdicts: verdicts.map((verdict: unknown) => ({ ...(verdict as object), note: '' })) }
      : {}),
  }
}

/** The rows as this caller may see them. */
export const rowsFor = ({ text }: Reading, rows: readonly QueryRow[]): QueryRow[] =>
  text ? [...rows] : rows.map(hidden)
