/** Folds the whole log for an audit, into tables of a temporary file, so memory does not grow with the log. */
import {
  decodeRecord,
  InstarError,
  type Logged,
  type ScoresEvent,
  type Table,
  type VersionRejected,
} from '@instar/events'
import {
  Meter,
  openTemporaryTables,
  storedByPolicy,
  storedBySession,
  storedScores,
  storedTurns,
  storedUpdates,
  storedWeights,
  type CopyProgress,
  type EventLog,
  type LogRecord,
  type Offsets,
  type Snapshot,
} from '@instar/log'
import { evolveAudit, type AuditState, type Difference, type Sealing, type Series } from '../core/audit.ts'

/** Malformed records (`bad_record`), which every service skips. `first`: the first of them. */
export type Unreadable = { records: number; first: Difference[] }

export type Audit = {
  state: AuditState
  /** The record at which reading stopped before the end of the log: a gap in a chain, or a record of a newer build. */
  broken: Difference | null
  unreadable: Unreadable
  /** To be called after each further record is folded; await its result before the next record. */
  afterFold(logged: Logged): Promise<void> | undefined
  /** Deletes the file. The state is unusable afterwards. */
  close(): Promise<void>
}

/** Limit of `Unreadable.first`. */
const MAX_NAMED = 20

const series = <T>(table: Table<string, T>): Series<T> => {
  let length = 0
  return {
    get length() {
      return length
    },
    push(item) {
      table.set(String(length), item)
      length += 1
    },
    at: (index) => table.get(String(index)),
  }
}

const plain = { json: () => true }

const storedAudit = (snapshot: Snapshot, policy: string): AuditState => ({
  policy,
  turns: storedTurns(snapshot),
  scores: storedByPolicy((one) => storedScores(snapshot, one)),
  updates: storedUpdates(snapshot, { training: true }),
  weights: storedWeights(snapshot),
  scoreRecords: snapshot.table<ScoresEvent>('score records'),
  turnOrder: series(snapshot.table<string>('turns', plain)),
  scored: storedByPolicy((one) => series(snapshot.table<string>(`scored ${one}`, plain))),
  batches: storedByPolicy((one) => series(snapshot.table<string>(`order ${one}`, plain))),
  moves: series(snapshot.table<{ to: number; at: number }>('moves', plain)),
  rejected: snapshot.table<VersionRejected>('rejected'),
  sealings: snapshot.table<Sealing>('sealings'),
  spentAt: storedBySession<number, number>(
    snapshot,
    'spent at',
    (at) => at,
    (at) => at,
  ),
})

/** Throws `aborted` if the signal is aborted. */
export const throwIfAborted = (signal: AbortSignal | undefined): void => {
  if (signal?.aborted) throw new InstarError('aborted', 'The command was stopped before it reached the end of the log.')
}

/**
 * Folds the records of the policy and its branches up to the end of the log as of the call; other processes may append
 * meanwhile. Throws `aborted`, and `no_temporary_file` if the file cannot be created or written. The file is deleted
 * when it throws.
 */
export const readAudit = async (
  log: EventLog,
  policy: string,
  signal?: AbortSignal,
  onProgress: (progress: CopyProgress) => void = () => undefined,
): Promise<Audit> => {
  const { snapshot, afterFold, close } = await openTemporaryTables(log)
  const unreadable: Unreadable = { records: 0, first: [] }
  try {
    const state = storedAudit(snapshot, policy)
    const audit: Audit = { state, broken: null, unreadable, afterFold, close }
    const to = await endsWithReferences(log)
    for (const topic of ['turns', 'scores', 'weights', 'updates'] as const) {
      const meter = new Meter({ phase: 'fold', topic }, { to }, { onProgress })
      for await (const records of log.read(topic, { to })) {
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
const fold = async ({ state, unreadable, afterFold }: Audit, record: LogRecord): Promise<Difference | null> => {
  let logged: Logged
  try {
    logged = decodeRecord(record)
    evolveAudit(state, logged)
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
