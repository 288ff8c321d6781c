/** Counts of an import, with the field names that `instar import --json` prints. */
type SkippedLine = { file: string; line: number; reason: string }

export type ImportReport = {
  lines: number
  sessions: number
  /** Added turns. */
  turns: number
  /** Added turns that are token-exact. */
  exact: number
  /** Added turns that are trainable. */
  trainable: number
  feedback: number
  /** Sessions that end with the outcome of an episode, and sessions whose episode was aborted. */
  outcomes: number
  discarded: number
  /** Turns that the log already held. */
  there: number
  /** Turns that occur more than once in the files; counted once for each repetition. */
  repeated: number
  /** Added turns that are not trainable: reason → count. */
  not_trainable: Record<string, number>
  skipped: SkippedLine[]
}

export const emptyReport = (): ImportReport => ({
  lines: 0,
  sessions: 0,
  turns: 0,
  exact: 0,
  trainable: 0,
  feedback: 0,
  outcomes: 0,
  discarded: 0,
  there: 0,
  repeated: 0,
  not_trainable: {},
  skipped: [],
})

/** Counts an added turn. */
export const countTurn = (
  report: ImportReport,
  { tokens, trainable, reason }: { tokens: string; trainable: boolean; reason: string | null },
): void => {
  report.turns += 1
  if (tokens === 'exact') report.exact += 1
  if (trainable) report.trainable += 1
  if (reason !== null) report.not_trainable[reason] = (report.not_trainable[reason] ?? 0) + 1
}
