/** Tables of the topic `weights`. */
import { bigint, boolean, index, integer, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'
import { time } from './time.ts'

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
export const allVersions = pgTable(
  'all_versions',
  {
    policy: text().notNull(),
    version: integer().notNull(),
    parent: integer(),
    /** Of the adapter; null: the base model alone (`lines.base_sha256`). */
    sha256: text(),
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
  },
  (t) => [primaryKey({ columns: [t.policy, t.version] }), index('all_versions_update').on(t.update_id)],
)

/** Every change of the version that serves: publications and rollbacks, `seq` 0 being the line's start. */
export const allHeadMoves = pgTable(
  'all_head_moves',
  {
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
  },
  (t) => [primaryKey({ columns: [t.policy, t.seq] })],
)

export const allRejections = pgTable(
  'all_rejections',
  {
    record_id: text().primaryKey(),
    policy: text().notNull(),
    update_id: text().notNull(),
    adapter: text().notNull(),
    parent: integer().notNull(),
    reason: text().notNull(),
    figures: jsonb().notNull(),
    evidence: jsonb().notNull(),
    at: time().notNull(),
  },
  (t) => [index('all_rejections_update').on(t.update_id)],
)

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
