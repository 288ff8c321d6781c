/** Table of the topic `scores`. */
import { boolean, doublePrecision, integer, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'
import { time } from './time.ts'

/** One row per turn and revision; the last is in force. `reward` null: skipped, `reason` says why. */
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
    /** Each judge's verdict: [{judge, value, note}]. */
    verdicts: jsonb().notNull(),
    /** The turn, feedback or closing that gave rise to it. */
    cause: text().notNull(),
    /** Explicit feedback outranks judges. */
    explicit: boolean().notNull(),
    at: time().notNull(),
    record_id: text().notNull(),
  },
  (t) => [primaryKey({ columns: [t.policy, t.turn_id, t.revision] })],
)
