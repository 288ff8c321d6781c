/**
 * The whole log, folded for an audit: into tables in a file of its own, so that a long log needs no more memory than
 * a short one.
 */
import {
  decodeRecord,
  InstarError,
  type Logged,
  type ScoresEvent,
  type Table,
  type VersionRejected,
} from '@instar/events'
import {
  openSnapshots,
  storedByPolicy,
  storedBySession,
  storedScores,
  storedTurns,
  storedUpdates,
  storedWeights,
  type EventLog,
  type LogRecord,
  type Snapshot,
} from '@instar/log'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { evolveAudit, type AuditState, type Difference, type Sealing, type Series } from '../core/audit.ts'

/** Records that no build can read, which every service passes over: how many, and the first of them. */
export type Unreadable = { records: number; first: Difference[] }

export type Audit = {
  state: AuditState
  /** Where reading ended before the log did: a gap in a chain, a record of a newer build. */
  broken: Difference | null
  unreadable: Unreadable
  /** A further record was folded; the next one waits for what it returns. */
  folded(logged: Logged): Promise<void> | undefined
  /** Lets the file go. Nothing of the state may be asked afterwards. */
  close(): Promise<void>
}

const MOST_NAMED = 20
/** Changed entries are in memory until so many records are folded; entries that were used lately are beside them. */
const RECORDS = 2_000
const ROOM = 2_000

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
  listed: series(snapshot.table<string>('turns', plain)),
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

/** Throws `aborted` when stopped; the caller removes what it has made. */
export const unlessStopped = (signal: AbortSignal | undefined): void => {
  if (signal?.aborted) throw new InstarError('aborted', 'It was asked to stop before the end of the log.')
}

/**
 * Of the policy and its branches, as of the call. A pipeline may be writing meanwhile. Throws `aborted`, and
 * `no_temporary_file` where the file cannot be made or written, since all of a long log in memory ends the process;
 * no file stays.
 */
export const readAudit = async (log: EventLog, policy: string, signal?: AbortSignal): Promise<Audit> => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-audit-')).catch((cause: Error) => {
    throw noFile(cause.message, cause)
  })
  let fault: string | null = null
  const say = (line: string): void => {
    fault ??= line
  }
  const snapshot = openSnapshots(folder, { records: RECORDS, room: ROOM, say }).of('audit', 'audit')
  const close = async (): Promise<void> => {
    await snapshot.close({ save: false })
    await rm(folder, { recursive: true, force: true })
  }
  const unlessFaulty = (): void => {
    if (fault !== null) throw noFile(fault)
  }
  const unreadable: Unreadable = { records: 0, first: [] }
  try {
    await snapshot.open(log)
    unlessFaulty()
    const state = storedAudit(snapshot, policy)
    const folded: Audit['folded'] = (logged) => snapshot.after(logged)?.then(unlessFaulty)
    const audit: Audit = { state, broken: null, unreadable, folded, close }
    // One cut, what names before what is named.
    const to = await log.ends(['updates', 'weights', 'scores', 'turns'])
    for (const topic of ['turns', 'scores', 'weights', 'updates'] as const) {
      for await (const records of log.read(topic, { to })) {
        unlessStopped(signal)
        for (const record of records) {
          audit.broken = await take(audit, record)
          if (audit.broken) return audit
        }
      }
    }
    return audit
  } catch (error) {
    await close()
    throw error
  }
}

const noFile = (what: string, cause?: unknown): InstarError =>
  new InstarError('no_temporary_file', `the log cannot be folded into a file in ${tmpdir()}: ${what}`, {}, { cause })

/** Folds one record, or passes over it; why reading ends there, else null. */
const take = async ({ state, unreadable, folded }: Audit, record: LogRecord): Promise<Difference | null> => {
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
    if (unreadable.first.length < MOST_NAMED) unreadable.first.push(difference)
    return null
  }
  const kept = folded(logged)
  if (kept) await kept
  return null
}
