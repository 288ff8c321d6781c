/** Folds the whole log for an audit, into tables of a temporary file, so memory does not grow with the log. */
import { decodeRecord, InstarError, updateLine, weightLine, type Logged } from '@instar/events'
import { Meter, openTemporaryTables, type CopyProgress, type EventLog, type LogRecord, type Offsets } from '@instar/log'
import type { Difference } from '../core/audit.ts'
import { evolveAudit, type AuditState } from '../core/audit-state.ts'
import { Late } from '../core/late.ts'
import { auditFold, auditOfSnapshot } from './stored-audit.ts'

/** Malformed records (`bad_record`), which every service skips. `first`: the first of them. */
export type Unreadable = { records: number; first: Difference[] }

/**
 * What an audit takes from a checkpoint instead of from the log. `record`: its id; `at`: when it was written, ms since the epoch;
 * `turns` of all policies, `batches` and `versions` (above 0) of the policy: how many lie before it.
 */
export type Trusted = { record: string; at: number; turns: number; batches: number; versions: number }

export type Audit = {
  state: AuditState
  /** Null: the log was read from its start. */
  trusted: Trusted | null
  /** Batches before the checkpoint whose outcome or verdict is behind it. */
  late: Late
  /** The record at which reading stopped before the end of the log: a gap in a chain, or a record of a newer build. */
  broken: Difference | null
  unreadable: Unreadable
  /** To be called after each further record is folded; await its result before the next record. */
  afterFold(logged: Logged): Promise<void> | undefined
  /** Deletes the file. The state is unusable afterwards. */
  close(): Promise<void>
}

/** A checkpoint to start from. `folder`: of the files; `record`: the beginning of its record's id, absent: the newest. */
export type AuditStart = { folder: string; record?: string }

type AuditOptions = {
  signal?: AbortSignal | undefined
  onProgress?: ((progress: CopyProgress) => void) | undefined
  /** Absent: the log is read from its start. */
  start?: AuditStart | undefined
}

/** Limit of `Unreadable.first`. */
const MAX_NAMED = 20

/** Throws `aborted` if the signal is aborted. */
export const throwIfAborted = (signal: AbortSignal | undefined): void => {
  if (signal?.aborted) throw new InstarError('aborted', 'The command was stopped before it reached the end of the log.')
}

/**
 * Folds the records of the policy and its branches up to the end of the log as of the call; other processes may append
 * meanwhile. Throws `aborted`, `no_checkpoint`, and `no_temporary_file` if the file cannot be created or written. The file is
 * deleted when it throws.
 */
export const readAudit = async (
  log: EventLog,
  policy: string,
  { signal, onProgress = () => undefined, start }: AuditOptions = {},
): Promise<Audit> => {
  const { snapshot, from, checkpoint, afterFold, close } = await openTemporaryTables(
    log,
    start && {
      folder: start.folder,
      name: `${auditFold.service}.${policy}`,
      version: auditFold.version,
      topics: auditFold.topics,
      accepts: ({ id }) => id.startsWith(start.record ?? ''),
    },
  )
  const unreadable: Unreadable = { records: 0, first: [] }
  try {
    const state = auditOfSnapshot(snapshot, policy, { ordered: start === undefined })
    const trusted = checkpoint && { record: checkpoint.id, at: checkpoint.event.at, ...trustedOf(state) }
    const audit: Audit = { state, trusted, late: new Late(state), broken: null, unreadable, afterFold, close }
    const to = await endsWithReferences(log)
    for (const topic of auditFold.topics) {
      const range = { from, to }
      const meter = new Meter({ phase: 'fold', topic }, range, { onProgress })
      for await (const records of log.read(topic, range)) {
        throwIfAborted(signal)
        for (const record of records) {
          meter.read(record)
          audit.broken = await fold(audit, record)
          if (audit.broken) return audit
        }
      }
      meter.end()
    }
    return audit
  } catch (error) {
    await close()
    throw error
  }
}

const trustedOf = (state: AuditState): Omit<Trusted, 'record' | 'at'> => ({
  turns: state.turnOrder.length,
  batches: updateLine(state.updates, state.policy).count,
  versions: weightLine(state.weights, state.policy).last,
})

/** Versions that may be published while the ends are read, before this is left to chance. */
const MOST_PUBLISHED = 16

/**
 * Ends of the topics between which no record refers to one behind them, of a log in use. A call for several topics may ask the
 * brokers at once, which answer at different times: each topic is asked after those that refer to it. Versions refer to updates,
 * and batches to the version before them: both ends hold where no version was published meanwhile.
 */
const endsWithReferences = async (log: EventLog): Promise<Offsets> => {
  let weights = await log.ends(['weights'])
  for (let i = 0; ; i += 1) {
    const updates = await log.ends(['updates'])
    const after = await log.ends(['weights'])
    if (i < MOST_PUBLISHED && JSON.stringify(after) !== JSON.stringify(weights)) weights = after
    else return { ...weights, ...updates, ...(await log.ends(['scores'])), ...(await log.ends(['turns'])) }
  }
}

/** Folds one record or skips a malformed one. Returns the reason why reading stops at this record, otherwise null. */
const fold = async (audit: Audit, record: LogRecord): Promise<Difference | null> => {
  const { state, trusted, late, unreadable, afterFold } = audit
  let logged: Logged
  try {
    logged = decodeRecord(record)
    if (trusted) late.fold(logged, () => evolveAudit(state, logged))
    else evolveAudit(state, logged)
  } catch (error) {
    if (!(error instanceof InstarError)) throw error
    const place = `${record.partition}@${record.offset}`
    const named = [error.details.prev, error.details.record].find((id) => typeof id === 'string') ?? place
    const difference = { topic: record.topic, key: record.key, record: named, type: record.schema, what: error.message }
    if (error.code !== 'bad_record') return difference
    unreadable.records += 1
    if (unreadable.first.length < MAX_NAMED) unreadable.first.push(difference)
    return null
  }
  const written = afterFold(logged)
  if (written) await written
  return null
}
