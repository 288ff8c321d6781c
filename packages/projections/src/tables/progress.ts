/** Tables of the state of the projection. */
import { bigint, integer, pgTable, primaryKey, text } from '../drizzle.ts'

/** The positions of the projection, updated in the transaction that writes the rows. */
export const offsets = pgTable(
  'offsets',
  {
    topic: text().notNull(),
    partition: integer().notNull(),
    next_offset: bigint({ mode: 'number' }).notNull(),
    /** Id of the record at `next_offset - 1`. If the log has another record there, it is another log. */
    last_record_id: text().notNull(),
    /** `RULES` of the build that wrote the rows. */
    rules: integer().notNull(),
  },
  (t) => [primaryKey({ columns: [t.topic, t.partition] })],
)

/** Records that do not count, such as repeats, records of stale writers, and feedback for unknown turns. */
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
