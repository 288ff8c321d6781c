/** The folds of services that have checkpoints, and how their verification is shown. */
import type { CheckedCheckpoint, CheckpointsReport, StoredFold } from '@instar/log'
import { publisherFold } from '@instar/publisher'
import { scorerFold } from '@instar/scorer'
import { trainerFold } from '@instar/trainer'
import { minuteText, table } from './table.ts'

export const CHECKPOINTED: readonly StoredFold[] = [scorerFold, trainerFold, publisherFold]

const holds = ({ ok }: CheckedCheckpoint): string => (ok === null ? 'not verified' : ok ? 'yes' : 'NO')

export const checkpointsText = ({ checkpoints, first }: CheckpointsReport): string => {
  const rows = table(
    [
      { name: 'state', of: ({ name }) => name },
      { name: 'version', of: ({ version }) => version },
      { name: 'written (UTC)', of: ({ at }) => minuteText(at) },
      { name: 'rows', of: (row) => row.rows },
      { name: 'digest', of: ({ digest }) => digest.slice(0, 12) },
      { name: 'holds', of: holds },
      { name: 'file', of: ({ file }) => file.replace('_', ' ') },
    ],
    checkpoints,
  )
  const open = checkpoints
    .filter(({ ok }) => ok === null)
    .map(({ name, record, what }) => `not verified: ${name}, record ${record}: ${what}\n`)
    .join('')
  const verdict = first
    ? `first difference: the checkpoint of ${first.name}, record ${first.record}\n  ${first.what}\n`
    : `no difference: ${checkpoints.length} checkpoints\n`
  return `${rows}\n${open}${verdict}`
}
