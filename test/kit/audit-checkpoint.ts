/** A checkpoint of the audit's state, as `instar checkpoint audit` writes it. */
import { writeCheckpoint, type CheckpointReport, type EventLog } from '@instar/log'
import { auditFold } from '@instar/trainer'

/** `folder`: of the files. Null: the log has no record for the state. */
export const checkpointAudit = (log: EventLog, policy: string, folder: string): Promise<CheckpointReport | null> =>
  writeCheckpoint(log, auditFold, {
    policy,
    folder,
    now: () => 5,
    observer: { onProgress: () => undefined },
    signal: new AbortController().signal,
  })
