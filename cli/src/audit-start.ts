/** The checkpoint that a command names: the newest, or one by the beginning of its record's id. */
import { InstarError } from '@instar/events/errors'
import type { AuditStart } from '@instar/trainer'

export const NEWEST = 'newest'

/** `folder`: of the files. Null: `value` is neither `newest` nor the beginning of an id. */
export const startAt = (folder: string, value: string): AuditStart | null => {
  if (value === NEWEST) return { folder }
  return /^[0-9a-f]{8,64}$/.test(value) ? { folder, record: value } : null
}

/**
 * Of the body of /admin/replay; undefined: the log is read from its start. `folder` undefined: this process has none. Throws
 * `bad_request`.
 */
export const parseReplayStart = (
  { checkpoint }: Readonly<Record<string, unknown>>,
  folder: string | undefined,
): AuditStart | undefined => {
  if (checkpoint === undefined) return undefined
  const start = typeof checkpoint === 'string' && folder !== undefined ? startAt(folder, checkpoint) : null
  if (start) return start
  throw new InstarError(
    'bad_request',
    folder === undefined
      ? 'checkpoint: this process has no folder of checkpoints'
      : 'checkpoint is neither `newest` nor the id of a record, or at least its first 8 digits',
    { field: 'checkpoint' },
  )
}
