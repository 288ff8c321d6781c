/** Errors by code, with what docs/errors.md says about each. */
import { useEffect, useState } from 'preact/hooks'
import { get } from '../api.ts'
import { count } from '../format.ts'
import { html, type View } from '../html.ts'
import { Table } from './table.ts'

type Help = Record<string, { meaning: string; todo: string }>
type Row = { code: string; count: number }

export const ErrorHelp = ({ errors }: { errors: readonly Row[] }): View => {
  const [help, setHelp] = useState<Help>({})
  useEffect(() => void get<Help>('/v1/dashboard/errors').then(setHelp, () => undefined), [])
  return html`<${Table} caption="Errors" empty="None." rows=${errors.toSorted((a, b) => b.count - a.count)} columns=${[
    { name: 'Code', of: (row: Row) => html`<code>${row.code}</code>` },
    { name: 'Times', numeric: true, of: (row: Row) => count(row.count) },
    { name: 'Meaning', of: (row: Row) => help[row.code]?.meaning ?? '' },
    { name: 'What to do', of: (row: Row) => help[row.code]?.todo ?? '' },
  ]} />`
}
