/**
 * The tables of the read model, one file per topic, and the views over them. `npx drizzle-kit generate` derives
 * migrations/ from this file.
 *
 * Rows are inserted in log order; a row with an existing key is not inserted. All data is from the log. There are no
 * foreign keys between topics, since topics are read at different speeds; views join them. Tables with the prefix
 * `all_` contain all lines; the view without the prefix contains the live lines, whose policy has no branch name
 * (`policy~name`). Texts of people are not stored, except hints. Times are `timestamptz`. `record_id`: the record from
 * which the row was derived.
 */
import { ignored } from './tables/progress.ts'
import { allScores } from './tables/scores.ts'
import { feedback, sessionClosings, sessionLinks, sessions, turns } from './tables/turns.ts'
import { allBatches, allBatchTurns, allOutcomes } from './tables/updates.ts'
import { allFreezes, allHeadMoves, allRejections, allVersions, lines } from './tables/weights.ts'

export * from './tables/progress.ts'
export * from './tables/scores.ts'
export * from './tables/turns.ts'
export * from './tables/updates.ts'
export * from './tables/weights.ts'
export * from './metric-views.ts'
export * from './views.ts'

/** The tables that `project` fills, in the order in which a transaction writes them. */
export const TABLES = {
  sessions,
  session_links: sessionLinks,
  session_closings: sessionClosings,
  turns,
  feedback,
  all_scores: allScores,
  all_batches: allBatches,
  all_batch_turns: allBatchTurns,
  all_outcomes: allOutcomes,
  lines,
  all_versions: allVersions,
  all_head_moves: allHeadMoves,
  all_rejections: allRejections,
  all_freezes: allFreezes,
  ignored,
} as const

export type TableName = keyof typeof TABLES
export type RowOf<T extends TableName> = (typeof TABLES)[T]['$inferInsert']
