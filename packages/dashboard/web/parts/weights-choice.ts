/** A choice among the weights that can answer: versions, the ends of branches, and updates that the gate rejected. */
import { plainName, reward } from '../format.ts'
import { html, type View } from '../html.ts'
import { gateReason } from '../reasons.ts'
import type { Lineage } from '../rows.ts'

/** `3`, `branch:NAME`, `update:7`. */
export type Weights = string

/** As `/v1/dashboard/sample` takes them. */
export const weightsOf = (chosen: Weights): Record<string, string | number> => {
  const [kind, name] = [chosen.slice(0, chosen.indexOf(':')), chosen.slice(chosen.indexOf(':') + 1)]
  if (kind === 'branch') return { branch: name }
  return kind === 'update' ? { update: Number(name) } : { version: Number(chosen) }
}

export const weightsName = (chosen: Weights): string => {
  if (chosen.startsWith('branch:')) return `Branch ${plainName(chosen.slice(7))}`
  if (chosen.startsWith('update:')) return `Rejected update ${chosen.slice(7)}`
  return `Version ${chosen}${chosen === '0' ? ' (the base)' : ''}`
}

const STATES: Readonly<Record<string, string>> = { serving: ' · serves now', rolled_back: ' · left by a rollback' }

/** Versions and rejected updates in the list: the newest. An older version can be in the page's address. */
const MOST = 200

export const WeightsChoice = ({
  label,
  chosen,
  lineage,
  last,
  onChoose,
}: {
  label: string
  chosen: Weights
  /** Null: the history is not there (yet), and versions have numbers alone. */
  lineage: Lineage | null
  last: number
  onChoose: (weights: Weights) => void
}): View => {
  const versions = lineage
    ? lineage.versions.slice(0, MOST).map(({ version, status: state, reward: mean }) => ({
        value: String(version),
        text: `${version}${STATES[state] ?? ''}${mean === null ? '' : ` · reward ${reward(mean)}`}`,
      }))
    : Array.from({ length: Math.min(last + 1, MOST) }, (_, i) => ({ value: String(last - i), text: String(last - i) }))
  if (!versions.some(({ value }) => value === '0')) versions.push({ value: '0', text: '0 · the base' })
  const branches = (lineage?.branches ?? []).map(({ name }) => ({ value: `branch:${name}`, text: plainName(name) }))
  const rejected = (lineage?.updates ?? [])
    .filter((update) => update.status === 'rejected')
    .slice(0, MOST)
    .map(({ number, parent_version: parent, reason }) => ({
      value: `update:${number}`,
      text: `update ${number} of version ${parent} · ${gateReason(reason)}`,
    }))
  const groups = [
    { name: 'Versions', options: versions },
    { name: 'Branches (their last version)', options: branches },
    { name: 'Rejected by the gate', options: rejected },
  ].filter(({ options }) => options.length > 0)
  const known = groups.some(({ options }) => options.some(({ value }) => value === chosen))
  return html`
    <label>${label}<select value=${chosen} onChange=${(event: Event) =>
      onChoose((event.target as HTMLSelectElement).value)}>
      ${known ? null : html`<option value=${chosen} selected>${weightsName(chosen)}</option>`}
      ${groups.map(
        ({ name, options }) =>
          html`<optgroup label=${name}>${options.map(
            ({ value, text }) => html`<option value=${value} selected=${value === chosen}>${text}</option>`,
          )}</optgroup>`,
      )}
    </select></label>
  `
}
