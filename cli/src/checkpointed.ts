/** How the verification of checkpoints is shown, and which of them a command starts from. */
import type { CheckedCheckpoint, CheckpointsReport } from '@instar/log'
import type { AuditStart, Trusted } from '@instar/trainer'
import { NEWEST, startAt } from './audit-start.ts'
import { UsageError } from './command.ts'
import { minuteText, table } from './table.ts'

/** The option `--from-checkpoint[=RECORD]` of verify and replay. */
export const FROM_CHECKPOINT = { 'from-checkpoint': { type: 'string' } } as const
export const BARE_FROM_CHECKPOINT = { 'from-checkpoint': NEWEST }

/** Null: the option is not given. Throws `UsageError`. */
export const startOf = (folder: string, value: string | undefined): AuditStart | null => {
  if (value === undefined) return null
  const start = startAt(folder, value)
  if (start) return start
  throw new UsageError(`--from-checkpoint=${value}: not the id of a record, or at least its first 8 digits`)
}

export const checkpointText = ({ record, at }: Pick<Trusted, 'record' | 'at'>): string =>
  `the checkpoint of ${minuteText(at)} UTC, record ${record.slice(0, 12)}`

export const trustedText = ({ turns, batches, versions, ...checkpoint }: Trusted): string =>
  `from ${checkpointText(checkpoint)}, which \`instar verify --checkpoints\` compares with the log. ` +
  `Not looked at: the ${batches} batches, ${versions} versions and ${turns} turns before it\n`

const holds = ({ ok }: CheckedCheckpoint): string => (ok === null ? 'not verified' : ok ? 'yes' : 'NO')

export const checkpointsText = ({ checkpoints, first, unreadable }: CheckpointsReport): string => {
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
  const [one] = unreadable.first
  const skipped = one
    ? `${unreadable.records} record${unreadable.records === 1 ? '' : 's'} beside them cannot be decoded, and may have been of a checkpoint; the first: ${one.topic} ${one.partition}@${one.offset}\n`
    : ''
  return `${rows}\n${open}${verdict}${skipped}`
}
