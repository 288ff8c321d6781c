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
import { bigint, boolean, doublePrecision, index, integer, jsonb, pgTable, primaryKey, text, timestamp } from 'drizzle-orm/pg-core'

const time = () => timestamp({ withTimezone: true, precision: 3, mode: 'string' })

/** Where the projection stands: rows and offsets change in one transaction. */
export const offsets = pgTable('offsets', {
  topic: text().notNull(),
  partition: integer().notNull(),
  next_offset: bigint({ mode: 'number' }).notNull(),
  /** Id of the record at `next_offset - 1`: another one there means that this is another log. */
  last_record_id: text().notNull(),
  /** Version of the code that wrote the rows; another one means: from the start. */
  rules: integer().notNull(),
}, (t) => [primaryKey({ columns: [t.topic, t.partition] })])

/** Records that do not count: stale writers, repeats, feedback for turns unknown. */
export const ignored = pgTable('ignored', {
  topic: text().notNull(),
  key: text().notNull(),
  record_id: text().notNull(),
  type: text().notNull(),
  why: text().notNull(),
  partition: integer().notNull(),
  position: bigint({ mode: 'number' }).notNull(),
}, (t) => [primaryKey({ columns: [t.topic, t.partition, t.position] })])

// ---- topic turns

/** A session as its first turn shows it. */
export const sessions = pgTable('sessions', {
  session_id: text().primaryKey(),
  policy: text().notNull(),
  subject: text().notNull(),
  key_id: text(),
  label_source: text().notNull(),
  dialect: text().notNull(),
  first_turn_id: text().notNull(),
  started_at: time().notNull(),
})

export const turns = pgTable('turns', {
  turn_id: text().primaryKey(),
  session_id: text().notNull(),
  policy: text().notNull(),
  version: integer().notNull(),
  /** sha256 of the adapter that answered; null: the base. */
  adapter: text(),
  /** One request; its candidates share it. */
  group_id: text().notNull(),
  candidate: integer().notNull(),
  candidates: integer().notNull(),
  /** chat, responses, messages */
  dialect: text().notNull(),
  /** main, side */
  kind: text().notNull(),
  label_source: text().notNull(),
  subject: text().notNull(),
  key_id: text(),
  /** complete, aborted */
  status: text().notNull(),
  /** Why the answer ended: stop, length, tool_calls; of an aborted one client_gone, engine_failed, shutdown. */
  finish: text().notNull(),
  trainable: boolean().notNull(),
  /** Why it is not trainable. */
  reason: text(),
  off_prefix: boolean().notNull(),
  /** exact, none */
  tokens: text().notNull(),
  /** 1 for the first request with this content in the session. */
  attempt: integer().notNull(),
  /** The turn that this one continues. */
  follows_turn_id: text(),
  /** The turn whose request shows what the world said to this one. */
  next_turn_id: text(),
  /** open: none yet; turn: `next_turn_id` holds it; none: the session was closed before there was one. */
  next_state: text().notNull(),
  prompt_tokens: integer().notNull(),
  completion_tokens: integer().notNull(),
  started_at: time().notNull(),
  first_token_at: time().notNull(),
  finished_at: time().notNull(),
  /** From admission to the first token, to the last. */
  ttft_ms: doublePrecision().notNull(),
  latency_ms: doublePrecision().notNull(),
  temperature: doublePrecision().notNull(),
  engine: text().notNull(),
  digest: text().notNull(),
  record_id: text().notNull(),
}, (t) => [index('turns_session').on(t.session_id), index('turns_version').on(t.policy, t.version)])

export const feedback = pgTable('feedback', {
  feedback_id: text().primaryKey(),
  turn_id: text().notNull(),
  session_id: text().notNull(),
  value: doublePrecision().notNull(),
  subject: text().notNull(),
  key_id: text(),
  at: time().notNull(),
  record_id: text().notNull(),
}, (t) => [index('feedback_turn').on(t.turn_id)])

// ---- topic scores

/** One row per turn and revision; the last is in force. `reward` null: skipped, `reason` says why. */
export const allScores = pgTable('all_scores', {
  policy: text().notNull(),
  turn_id: text().notNull(),
  revision: integer().notNull(),
  session_id: text().notNull(),
  /** That spoke. */
  version: integer().notNull(),
  subject: text().notNull(),
  reward: doublePrecision(),
  judge: text(),
  reason: text(),
  hint: text(),
  hint_judge: text(),
  /** What each judge said: [{judge, value, note}]. */
  verdicts: jsonb().notNull(),
  /** The turn, feedback or closing that gave rise to it. */
  cause: text().notNull(),
  /** Explicit feedback outranks judges. */
  explicit: boolean().notNull(),
  at: time().notNull(),
  record_id: text().notNull(),
}, (t) => [primaryKey({ columns: [t.policy, t.turn_id, t.revision] })])

// ---- topic updates

export const allBatches = pgTable('all_batches', {
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
}, (t) => [index('all_batches_policy').on(t.policy, t.number)])

/** The turns that a batch spent: trained on, or dropped with a reason. */
export const allBatchTurns = pgTable('all_batch_turns', {
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
  /** Record id of the score that is used: `all_scores.record_id`. */
  score_id: text(),
  reward: doublePrecision(),
  baseline: doublePrecision(),
  advantage: doublePrecision(),
  hint: text(),
}, (t) => [primaryKey({ columns: [t.batch_id, t.turn_id] }), index('all_batch_turns_turn').on(t.turn_id)])

/** What came of a batch: an adapter, or a failure with its reason. */
export const allOutcomes = pgTable('all_outcomes', {
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
}, (t) => [index('all_outcomes_batch').on(t.batch_id)])

// ---- topic weights

export const lines = pgTable('lines', {
  policy: text().primaryKey(),
  /** live, replay */
  mode: text().notNull(),
  base_name: text().notNull(),
  base_sha256: text().notNull(),
  parent_policy: text(),
  parent_version: integer(),
  settings: jsonb().notNull(),
  started_at: time().notNull(),
  record_id: text().notNull(),
})

/** Accepted versions, 0 included: the base, or of a branch the version that it leaves. */
export const allVersions = pgTable('all_versions', {
  policy: text().notNull(),
  version: integer().notNull(),
  parent: integer(),
  /** Of the adapter; of version 0 that of the base model. */
  sha256: text().notNull(),
  adapter_bytes: bigint({ mode: 'number' }),
  state: text(),
  update_id: text(),
  /** base, update, promotion */
  why: text().notNull(),
  source_policy: text(),
  source_version: integer(),
  figures: jsonb().notNull(),
  published_at: time().notNull(),
  record_id: text().notNull(),
}, (t) => [primaryKey({ columns: [t.policy, t.version] }), index('all_versions_update').on(t.update_id)])

/** Every change of the version that serves: publications and rollbacks, `seq` 0 being the line's start. */
export const allHeadMoves = pgTable('all_head_moves', {
  policy: text().notNull(),
  seq: integer().notNull(),
  /** Null at the line's start. */
  from_version: integer(),
  to_version: integer().notNull(),
  why: text().notNull(),
  who: text().notNull(),
  froze: boolean().notNull(),
  request: text(),
  at: time().notNull(),
  record_id: text().notNull(),
}, (t) => [primaryKey({ columns: [t.policy, t.seq] })])

export const allRejections = pgTable('all_rejections', {
  record_id: text().primaryKey(),
  policy: text().notNull(),
  update_id: text().notNull(),
  adapter: text().notNull(),
  parent: integer().notNull(),
  reason: text().notNull(),
  figures: jsonb().notNull(),
  evidence: jsonb().notNull(),
  at: time().notNull(),
}, (t) => [index('all_rejections_update').on(t.update_id)])

/** Freezes and thaws of learning; a rollback's own freeze stands in `all_head_moves`. */
export const allFreezes = pgTable('all_freezes', {
  record_id: text().primaryKey(),
  policy: text().notNull(),
  frozen: boolean().notNull(),
  why: text().notNull(),
  who: text().notNull(),
  request: text().notNull(),
  at: time().notNull(),
})

/** Filled by `project`, in this order within a transaction. */
export const TABLES = {
  sessions, turns, feedback, all_scores: allScores, all_batches: allBatches, all_batch_turns: allBatchTurns, all_outcomes: allOutcomes,
  lines, all_versions: allVersions, all_head_moves: allHeadMoves, all_rejections: allRejections, all_freezes: allFreezes, ignored,
} as const

export type TableName = keyof typeof TABLES
export type RowOf<T extends TableName> = (typeof TABLES)[T]['$inferInsert']

export * from './views.ts'
