/** The ends of an imported session: with the outcome of its episode, as aborted, or where a line says that it is the last. */
import { closings, type SessionClosed, type TurnCaptured } from '@instar/events'
import type { ImportedRequest } from '@instar/gateway/imported'
import type { ExistingRecords } from './existing.ts'
import type { ImportReport } from './report.ts'
import type { RequestEntry } from './requests.ts'

type Endings = {
  /**
   * The records after the request at this index. `turns`: of the request, on the log or added; `added`: how many were
   * added.
   */
  after(at: number, request: ImportedRequest, turns: readonly TurnCaptured[], added: number): SessionClosed[]
  /** The records after the last request. */
  atEnd(): SessionClosed[]
}

/**
 * `entries`: of one session, in order. What the log has already is not written again: an outcome, another one too, since
 * the first one counts; that a turn is discarded.
 */
export const createEndings = (
  entries: readonly Pick<RequestEntry, 'episode'>[],
  existing: Pick<ExistingRecords, 'outcomes' | 'discarded'>,
  report: Pick<ImportReport, 'outcomes' | 'discarded'>,
): Endings => {
  // An exported outcome is in the line of every turn that it covers.
  const outcomeAt = entries.findLastIndex(({ episode }) => episode.outcome)
  const discardedAt = entries.findLastIndex(({ episode }) => episode.discarded)
  let open: string[] = []
  let allDiscarded = true
  let added = 0
  let last: Omit<SessionClosed, 'open'> | null = null
  const close = (closing: Omit<SessionClosed, 'open'>): SessionClosed[] => {
    const parts = closings(open)
    open = []
    return (parts.length === 0 ? [[]] : parts).map((part, i) =>
      i === 0 ? { ...closing, open: part } : { ...closing, open: part, outcome: null, task: null },
    )
  }
  return {
    after(at, { session, episode, last: isLast }, turns, count) {
      open.push(...turns.map(({ turn }) => turn))
      added += count
      allDiscarded &&= turns.every(({ turn }) => existing.discarded.has(turn))
      const [first] = turns
      if (!first) return []
      const closing = { type: 'SessionClosed', session, why: 'client', at: first.finishedAt } as const
      if (isLast) last = closing
      const records: SessionClosed[] = []
      if (at === outcomeAt && episode.outcome && !existing.outcomes.has(session)) {
        const { value: outcome, task, at: endedAt } = episode.outcome
        report.outcomes += 1
        records.push(...close({ ...closing, outcome, task, at: endedAt ?? closing.at }))
      }
      if (at === discardedAt && !allDiscarded) {
        report.discarded += 1
        records.push(...close({ ...closing, discarded: true }))
      }
      return records
    },
    atEnd: () => (last && added > 0 && open.length > 0 ? close(last) : []),
  }
}
