/** Rows to be written, by table, with the two small changes that rows of `turns` see later. */
import { TABLES, type RowOf, type TableName } from './schema.ts'

/** What becomes known of a turn after its row: the first such change is final. */
type NextState = { turn_id: string; next_state: 'turn' | 'none'; next_turn_id: string | null }

export type ProjectedRows = { [T in TableName]: RowOf<T>[] } & { next_states: NextState[] }

export const noRows = (): ProjectedRows => ({
  ...(Object.fromEntries(Object.keys(TABLES).map((name) => [name, []])) as unknown as { [T in TableName]: RowOf<T>[] }),
  next_states: [],
})

/** Milliseconds since the epoch as PostgreSQL reads it. */
export const timestampOf = (at: number): string => new Date(at).toISOString()
