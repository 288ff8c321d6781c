/**
 * The tables of the read model, one group for each topic, and the views over them. `npx drizzle-kit
 * generate` turns this file into migrations/.
 *
 * Tables are filled in log order by first-wins upserts and hold nothing that the log does not; there are
 * no foreign keys across topics, because topics are read at different speeds. What spans topics is a view.
 * Tables whose name begins with `all_` hold every line; the view without `all_` shows the live ones, those
 * whose policy has no branch name (`policy~name`). Words of people are not stored here, except hints.
 * Times are `timestamptz`; `record_id` names the record on the log that a row comes from.
 */
import { ignored } from './tables/progress.ts'
import { allScores } from './tables/scores.ts'
import { feedback, sessionLinks, sessions, turns } from './tables/turns.ts'
import { allBatches, allBatchTurns, allOutcomes } from './tables/updates.ts'
import { allFreezes, allHeadMoves, allRejections, allVersions, lines } from './tables/weights.ts'

export * from './tables/progress.ts'
export * from './tables/scores.ts'
export * from './tables/turns.ts'
export * from './tables/updates.ts'
export * from './tables/weights.ts'
export * from './views.ts'

/** Filled by `project`, in this order within a transaction. */
export const TABLES = {
  sessions,
  session_links: sessionLinks,
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
