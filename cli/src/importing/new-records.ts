/** Decides which turns and feedback the log lacks. */
import type { ExistingRecords } from './existing.ts'
import type { ImportReport } from './report.ts'

type NewRecords = {
  /** Whether the log holds the turn, or this import has added it. */
  hasTurn(turn: string): boolean
  /** True where the turn has to be written; otherwise it is counted as existing or repeated. */
  addTurn(turn: string): boolean
  /** True where the feedback has to be written. */
  addFeedback(id: string): boolean
}

export const createNewRecords = (
  existing: Pick<ExistingRecords, 'turns' | 'feedback'>,
  report: Pick<ImportReport, 'there' | 'repeated' | 'feedback'>,
): NewRecords => {
  const imported = new Set<string>()
  return {
    hasTurn: (turn) => existing.turns.has(turn) || imported.has(turn),
    addTurn(turn) {
      if (imported.has(turn)) {
        report.repeated += 1
        return false
      }
      imported.add(turn)
      if (!existing.turns.has(turn)) return true
      report.there += 1
      return false
    },
    addFeedback(id) {
      if (existing.feedback.has(id) || imported.has(id)) return false
      imported.add(id)
      report.feedback += 1
      return true
    },
  }
}
