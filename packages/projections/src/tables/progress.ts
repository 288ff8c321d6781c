/** Tables of the projection's own state. */
import { bigint, integer, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'

/** The projection's positions: rows and offsets change in one transaction. */
export const offsets = pgTable(
  'offsets',
  {
    topic: text().notNull(),
    partition: integer().notNull(),
    next_offset: bigint({ mode: 'number' }).notNull(),
    /** Id of the record at `next_offset - 1`: another one there means that this is another log. */
    last_record_id: text().notNull(),
    /** Version of the code that wrote the rows; another one means: from the start. */
    rules: integer().notNull(),
  },
  (t) => [primaryKey({ columns: [t.topic, t.partition] })],
)

/** Records that do not count: stale writers, repeats, feedback for turns unknown. */
export const ignored = pgTable(
  'ignored',
  {
    topic: text().notNull(),
    key: text().notNull(),
    record_id: text().notNull(),
    type: text().notNull(),
    why: text().notNull(),
    partition: integer().notNull(),
    position: bigint({ mode: 'number' }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.topic, t.partition, t.position] })],
)
