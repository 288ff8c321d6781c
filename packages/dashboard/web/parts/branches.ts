/** Branches that `instar replay` has made, each with the action that puts its last version through the gate. */
import { number, plainName, time } from '../format.ts'
import { html, type View } from '../html.ts'
import { gateReason } from '../reasons.ts'
import type { BranchRow } from '../rows.ts'
import { Act } from './act.ts'
import type { Action } from './confirm.ts'
import { Table } from './table.ts'

const promotion = ({ name, version }: BranchRow, head: number): Action => ({
  title: `Promote the branch ${plainName(name)}?`,
  what: html`<p>The gate measures version ${version} of the branch, as it measures any update. If it passes, it becomes
    the next version and serves instead of version ${head}, which stays and can be served again. If not, nothing
    changes.</p>`,
  verb: `Promote ${plainName(name)}`,
  command: 'promote',
  body: { branch: name },
  result: ({ accepted, reason, version: published }) =>
    accepted === false
      ? `The gate rejected it: ${
          typeof reason === 'string' ? gateReason(reason) : 'the log holds its figures'
        }. Version ${head} still serves.`
      : `Version ${Number(published)} serves, promoted from ${plainName(name)}.`,
})

type BranchesProps = { rows: readonly BranchRow[]; head: number; may: boolean; act: (action: Action) => void }

export const Branches = ({ rows, head, may, act }: BranchesProps): View => html`
  <${Table} caption="Branches" rows=${rows} columns=${[
    { name: 'Branch', of: (row: BranchRow) => html`<code>${plainName(row.name)}</code>` },
    {
      name: 'From',
      numeric: true,
      of: (row: BranchRow) => row.started_from ?? '–',
      title: 'Version from which it starts',
    },
    { name: 'Versions', numeric: true, of: (row: BranchRow) => row.version },
    {
      name: 'Last published',
      of: (row: BranchRow) => html`<span title=${row.published_at}>${time(row.published_at)}</span>`,
    },
    {
      name: 'Probes',
      numeric: true,
      of: (row: BranchRow) => number(row.figures?.['content'], 3),
      title: 'Share of the gate’s probes that its last version answers',
    },
    {
      name: 'KL base',
      numeric: true,
      of: (row: BranchRow) => number(row.figures?.['kl_base'], 3),
      title: 'How far its answers are from those of the base model, in nats per token',
    },
    {
      name: 'Action',
      of: (row: BranchRow) =>
        row.promoted
          ? html`<span class="quiet">promoted</span>`
          : html`<${Act} may=${may} small=${true} act=${() => act(promotion(row, head))}>Promote<//>`,
    },
  ]} />
`
