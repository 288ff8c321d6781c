/** Table of the topic `scores`. */
import { boolean, doublePrecision, index, integer, jsonb, pgTable, primaryKey, sql, text } from '../drizzle.ts'
import { time } from './time.ts'

/** One row per turn and revision; the last revision counts. `reward` null: skipped, for the given `reason`. */
export const allScores = pgTable(
  'all_scores',
  {
    policy: text().notNull(),
    turn_id: text().notNull(),
    revision: integer().notNull(),
    session_id: text().notNull(),
    /** The version that sampled the turn. */
    version: integer().notNull(),
    subject: text().notNull(),
    reward: doublePrecision(),
    judge: text(),
    reason: text(),
    hint: text(),
    hint_judge: text(),
    /** The verdicts of the judges: [{judge, value, note}], without the digests of the scorer. */
    verdicts: jsonb().notNull(),
    /** Id of the turn, feedback or closing that caused the score. */
    cause: text().notNull(),
    /** Whether the score is from explicit feedback, which outranks judges. */
    explicit: boolean().notNull(),
    at: time().notNull(),
    record_id: text().notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.policy, t.turn_id, t.revision] }),
    index('all_scores_version').on(t.policy, t.version),
    index('all_scores_at').on(t.policy, t.at),
    index('all_scores_session').on(t.session_id, t.reward),
    index('all_scores_reason')
      .on(t.policy, t.reason)
      .where(sql`${t.reason} is not null`),
  ],
)
