/** Tables of the topic `updates`. */
import { bigint, boolean, doublePrecision, index, integer, jsonb, pgTable, primaryKey, sql, text } from '../drizzle.ts'
import { time } from './time.ts'

export const allBatches = pgTable(
  'all_batches',
  {
    batch_id: text().primaryKey(),
    policy: text().notNull(),
    number: integer().notNull(),
    parent_version: integer().notNull(),
    parent_adapter: text(),
    items: integer().notNull(),
    dropped: integer().notNull(),
    mean_reward: doublePrecision(),
    loss: text().notNull(),
    seed: bigint({ mode: 'number' }).notNull(),
    settings: jsonb().notNull(),
    sealed_at: time().notNull(),
  },
  (t) => [index('all_batches_policy').on(t.policy, t.number)],
)

/** The turns of a batch: trained on, or dropped with a reason. They are not used again. */
export const allBatchTurns = pgTable(
  'all_batch_turns',
  {
    batch_id: text().notNull(),
    turn_id: text().notNull(),
    policy: text().notNull(),
    used: boolean().notNull(),
    reason: text(),
    session_id: text(),
    subject: text(),
    version: integer(),
    /** Record id of the turn: `turns.record_id`. */
    turn_record_id: text(),
    /** Record id of the score: `all_scores.record_id`. */
    score_id: text(),
    /** Of a turn without an outcome its score, otherwise outcome + turnScoreWeight · turn_score. */
    reward: doublePrecision(),
    baseline: doublePrecision(),
    advantage: doublePrecision(),
    hint: text(),
    /** The turn's own score; null: skipped, or not recorded by the build that sealed the batch. */
    turn_score: doublePrecision(),
    /** The outcome of the turn's episode, and the record that gave it: `session_closings.record_id`. */
    outcome: doublePrecision(),
    closing: text(),
  },
  (t) => [
    primaryKey({ columns: [t.batch_id, t.turn_id] }),
    index('all_batch_turns_turn').on(t.turn_id),
    index('all_batch_turns_dropped')
      .on(t.policy, t.reason)
      .where(sql`not ${t.used}`),
  ],
)

/** The result of a batch: an adapter, or a failure with its reason. */
export const allOutcomes = pgTable(
  'all_outcomes',
  {
    update_id: text().primaryKey(),
    policy: text().notNull(),
    batch_id: text().notNull(),
    number: integer().notNull(),
    adapter: text(),
    adapter_bytes: bigint({ mode: 'number' }),
    state: text(),
    state_bytes: bigint({ mode: 'number' }),
    failure: text(),
    fingerprint: jsonb(),
    figures: jsonb().notNull(),
    started_at: time(),
    finished_at: time().notNull(),
  },
  (t) => [index('all_outcomes_batch').on(t.batch_id)],
)
