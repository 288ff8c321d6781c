/**
 * Writes turns of a log as JSON lines that `instar import` reads: one line for each answer, with its feedback and the
 * outcome of its episode.
 */
import { InstarError, type SessionState } from '@instar/events'
import { exportTurn } from '@instar/gateway/exported-turn'
import { createTurnReader, type EventLog, type Offsets, type TurnReader } from '@instar/log'
import { readTurns, type FoldedTurns } from '../folded-turns.ts'

export type ExportReport = {
  sessions: number
  turns: number
  /** Incomplete answers; not exported. */
  aborted: number
  /** Candidates that were not sent to the client; not exported. */
  unshown: number
  feedback: number
  /** Answers that cannot be read: their record, or one that it refers to, is damaged or missing. Not exported. */
  unreadable: { turn: string; reason: string }[]
  /** Records of `turns` that cannot be decoded, which every service skips. */
  damaged: number
  /** Sessions with an outcome, and sessions whose episode was aborted. */
  outcomes: number
  discarded: number
}

/**
 * Yields lines session by session, in the order of the log, and counts them in `report`. An answer that cannot be read is
 * left out. `session`: export this session only; throws `unknown_turn` if it has no turn. Null: export all sessions. The
 * returned generator must be iterated to its end or returned, since it deletes the temporary file.
 */
export const exportLines = async (
  log: EventLog,
  session: string | null,
  report: ExportReport,
): Promise<AsyncGenerator<string>> => {
  const to = await log.ends(['turns'])
  const folded = await readTurns(log, session, to, () => {
    report.damaged += 1
  })
  if (session === null || folded.turns.sessions.get(session)?.turns.length)
    return exportedLines(log, folded, sessionsOf(log, folded, session, to), report)
  await folded.close()
  throw new InstarError('unknown_turn', `The log has no session ${session}.`, { session })
}

/** Each session once, in the order of their first records: `turns` is read again, since tables have no order. */
const sessionsOf = async function* (
  log: EventLog,
  { snapshot, turns, afterFold }: FoldedTurns,
  only: string | null,
  to: Offsets,
): AsyncGenerator<SessionState> {
  const seen = snapshot.keys('exported')
  for await (const records of log.read('turns', { to, ...(only === null ? {} : { key: only }) }))
    for (const { topic, key, partition, offset } of records) {
      if (seen.has(key)) continue
      seen.add(key)
      const written = afterFold({ topic, partition, offset, id: '' })
      if (written) await written
      const session = turns.sessions.get(key)
      if (session) yield session
    }
}

const exportedLines = async function* (
  log: EventLog,
  { turns, close }: FoldedTurns,
  sessions: AsyncIterable<SessionState>,
  report: ExportReport,
): AsyncGenerator<string> {
  const reader = createTurnReader(log, (turn) => turns.turns.get(turn))
  try {
    for await (const session of sessions) yield* linesOf(reader, session, report)
  } finally {
    await close()
  }
}

const linesOf = async function* (
  reader: TurnReader,
  session: SessionState,
  report: ExportReport,
): AsyncGenerator<string> {
  if (session.turns.length > 0) report.sessions += 1
  if (session.outcome) report.outcomes += 1
  if (session.turns.some(({ discardedBy }) => discardedBy !== null)) report.discarded += 1
  for (const turn of session.turns) {
    if (turn.status === 'aborted') report.aborted += 1
    else if (!turn.shown) report.unshown += 1
    else {
      const line = await exportTurn(reader, turn, session).catch((error: unknown) => {
        if (!(error instanceof InstarError) || error.retryable) throw error
        report.unreadable.push({ turn: turn.turn, reason: `${error.code}: ${error.message}` })
        return null
      })
      if (line === null) continue
      report.turns += 1
      report.feedback += turn.feedback.length
      yield `${JSON.stringify(line)}\n`
    }
  }
}
