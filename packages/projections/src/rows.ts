/** Rows to write, by table, and the changes to rows of `turns` that later records cause. */
import { TABLES, type RowOf, type TableName } from './schema.ts'

/** A change of a turn's next state from `open`; the first one is final. */
type NextState = { turn_id: string; next_state: 'turn' | 'none'; next_turn_id: string | null }

export type ProjectedRows = { [T in TableName]: RowOf<T>[] } & { next_states: NextState[] }

export const noRows = (): ProjectedRows => ({
  ...(Object.fromEntries(Object.keys(TABLES).map((name) => [name, []])) as unknown as { [T in TableName]: RowOf<T>[] }),
  next_states: [],
})

/** A time in milliseconds since the epoch as a timestamp for PostgreSQL. */
export const timestampOf = (at: number): string => new Date(at).toISOString()
