/** Tables of the topic `weights`. */
import { bigint, boolean, index, integer, jsonb, pgTable, primaryKey, sql, text } from '../drizzle.ts'
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

/** Accepted versions. Version 0 is the base model; of a branch, the version from which it starts. */
export const allVersions = pgTable(
  'all_versions',
  {
    policy: text().notNull(),
    version: integer().notNull(),
    parent: integer(),
    /** sha256 of the adapter; null: the base model (`lines.base_sha256`). */
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
    /** Who asked for the promotion, and why; null: it was none, or the record does not say. */
    asked_by: text(),
    asked_why: text(),
  },
  (t) => [primaryKey({ columns: [t.policy, t.version] }), index('all_versions_update').on(t.update_id)],
)

/** All changes of the head: publications and rollbacks. `seq` 0 is the start of the line. */
export const allHeadMoves = pgTable(
  'all_head_moves',
  {
    policy: text().notNull(),
    seq: integer().notNull(),
    /** Null at the start of the line. */
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
    /** As in `all_versions`. */
    asked_by: text(),
    asked_why: text(),
  },
  (t) => [
    index('all_rejections_update').on(t.update_id),
    index('all_rejections_asked')
      .on(t.policy, t.at)
      .where(sql`${t.asked_by} is not null`),
  ],
)

/** Freezes and unfreezes of learning. A freeze that is part of a rollback is in `all_head_moves`. */
export const allFreezes = pgTable('all_freezes', {
  record_id: text().primaryKey(),
  policy: text().notNull(),
  frozen: boolean().notNull(),
  why: text().notNull(),
  who: text().notNull(),
  request: text().notNull(),
  at: time().notNull(),
})
